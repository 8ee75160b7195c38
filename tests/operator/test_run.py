"""`pawl run` at a scripted watch door: what the command sees, what its caller gets, and what happens when either side goes away.

What the kernel holds is tests/kernel's; each step of the launcher alone is tests/unit/test_launch.c's.
"""
from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess

import tempfile
import textwrap
import time

import pytest

import live
from scripted_door import TOKEN, Hangup, WatchDoor
from watched import for_everybody

PY = "/usr/bin/python3"
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def where():
    path = pathlib.Path(tempfile.mkdtemp(prefix="pawl-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def door(where):
    with WatchDoor(str(where / "watch.sock")) as d:
        yield d


def words(door, *command, options=(), pawl=live.PAWL):
    return [str(pawl), "run", "--watch-socket", door.path, *options, "--", *command]


def run(door, *command, options=(), **how):
    how = {"capture_output": True, "text": True, "timeout": 60 * live.SLOW, "stdin": subprocess.DEVNULL} | how
    return subprocess.run(words(door, *command, options=options, pawl=for_everybody(live.PAWL) if how.get("user") else live.PAWL), **how)


def python(door, text, *args, **how):
    return run(door, PY, "-c", textwrap.dedent(text), *args, **how)


def start(door, *command, options=(), **how):
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "stdin": subprocess.DEVNULL} | how
    return subprocess.Popen(words(door, *command, options=options), **how)


def line(p):
    got = p.stdout.readline()
    assert got, p.stderr.read()
    return got.strip()


def close(p):
    p.stdin.close()
    p.stdin = None


def end(p, status):
    out, err = p.communicate(timeout=30 * live.SLOW)
    assert p.returncode == status, (p.returncode, out, err)
    return err


# ---- the command line


def test_help():
    done = subprocess.run([live.PAWL, "run", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage: pawl run" in done.stdout


@pytest.mark.parametrize("options, said", [
    ((), "no command"), (("--",), "no command"), (("--nosuch", "true"), "unknown"), (("--limit", "mony=1", "true"), "money="),
    (("--limit", "money=1", "--limit", "money=2", "true"), "twice"), (("--limit", "money=", "true"), "money="), (("--label", "x", "true"), "NAME=VALUE"),
    (("--label", "a=1", "--label", "a=2", "true"), "twice"), (("--user", "", "true"), "empty"), (("--user", "no such one", "true"), "no such user"),
    (("--root", "/no/such/folder", "true"), "--root"), (("--policy", "x", "--watch-socket", "y", "true"), "not both"),
    (("--watch-socket", "/" + "x" * 200, "true"), "longer"), (("--policy", "/no/such/file", "true"), "no/such"),
    (("--watch-socket", "/no/such.sock", "true"), "is pawld running?"), (("true",), "`pawld` starts it"), (("true",), "--policy FILE"),
])
def test_our_own_failures_are_125(options, said, tmp_path):
    done = subprocess.run([live.PAWL, "run", *options], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "PAWL_DIR": str(tmp_path)})
    assert done.returncode == 125 and said in done.stderr and not done.stdout, done


def test_only_root_becomes_others(door):
    if os.geteuid() == 0:
        done = run(door, "true", options=("--user", "daemon"), user=65534, group=65534)
    else:
        done = run(door, "true", options=("--user", "root"))
    assert done.returncode == 125 and "only root" in done.stderr and door.ops() == []


# ---- exit statuses


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 7", 7), ("exit 125", 125), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -PIPE $$", 141)])
def test_status_is_the_commands(door, script, status):
    assert run(door, "sh", "-c", script).returncode == status
    assert door.of("exited")[0]["status"] == status


def test_no_such_command(door, where):
    done = run(door, "no-such-command-here")
    assert done.returncode == 127 and "cannot start no-such-command-here: No such file" in done.stderr
    (where / "plain").write_text("x")
    done = run(door, str(where / "plain"))
    assert done.returncode == 126 and "Permission denied" in done.stderr
    assert [r["status"] for r in door.of("exited", 2)] == [127, 126]  # there was a session: it is told


# ---- the door


def test_what_is_asked(door, where):
    options = ("--agent", "coder", "--root", str(where), "--label", "run=4\u00e9 2", "--label", "b=", "--limit", "money=2", "--limit", "calls=10",
               "--limit", "time=10m", "--allow-degraded")
    p = start(door, "sh", "-c", "echo $$; read x", options=options, stdin=subprocess.PIPE)
    pid = int(line(p))
    assert door.requests[0] == {"v": 1, "op": "run", "agent": "coder", "root": str(where), "labels": {"run": "4\u00e9 2", "b": ""},
                                "limits": {"money": "2", "calls": 10, "time": "10m"}, "allow_degraded": True}
    assert door.pids == [pid]  # the process that was held has become the command
    close(p)
    end(p, 1)
    assert door.of("exited")[0] == {"v": 1, "op": "exited", "session": "s_5", "token": TOKEN, "status": 1}


@pytest.mark.parametrize("answer, said", [
    ({"v": 1, "op": "run", "error": {"code": "watch_required", "field": None, "message": "cannot hold fork_rate: no BPF"}}, "fork_rate: no BPF [watch_required]; `pawl doctor`"),
    ({"v": 1, "op": "run", "error": {"code": "session_limit", "message": "8 \x1b[31mopen"}}, "8 \\u{1b}[31mopen [session_limit]"),
    (b"{", "json"), (b"[]", "cannot be read"), ({"v": 1, "op": "run"}, "cannot be read"), (Hangup, "closed"), (b"x" * (64 << 10) + b"y", "bytes"),
    ({"session": "s_1\n"}, "session"), ({"token": "xyz"}, "token"), ({"launch": {}}, "agent_socket"),
    ({"launch": {"hide": ["relative"], "writes_under": None, "agent_socket": "/a"}}, "launch.hide"),
    ({"launch": {"hide": ["/x"] * 65, "writes_under": None, "agent_socket": "/a"}}, "launch.hide"),
    ({"launch": {"hide": [], "agent_socket": "/a"}}, "writes_under"),
    ({"launch": {"hide": [], "writes_under": 3, "agent_socket": "/a"}}, "writes_under"),
    ({"launch": {"hide": [], "writes_under": None, "agent_socket": "/a", "rlimits": {"cpu": "soon"}}}, "rlimits"),
    ({"launch": {"hide": ["/a"], "writes_under": None, "agent_socket": "/a/agent.sock"}}, "hidden from the command"),
    ({"launch": {"hide": [], "writes_under": ["/no/such/folder"], "agent_socket": "/a"}}, "/no/such/folder"),
])
def test_refused_or_unreadable_nothing_runs(door, where, answer, said):
    if isinstance(answer, dict) and "v" not in answer:
        answer = door.run(**answer)
    door.script["run"] = answer
    done = run(door, "touch", str(where / "ran"))
    assert done.returncode == 125 and said.lower() in done.stderr.lower(), done.stderr
    assert not (where / "ran").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(door.pids[0], 0)  # the held child is gone too


@pytest.mark.parametrize("after", [0.0, 0.5])  # seconds: before the launcher has asked, and when its question lies there unread
def test_turned_away_at_the_door(door, where, after):
    door.turn_away = b'{"v":1,"op":null,"error":{"code":"unavailable","field":null,"message":"as many as there is room for"}}'
    door.turn_away_after = after
    for _ in range(5):
        done = run(door, "touch", str(where / "ran"))
        assert done.returncode == 125 and "as many as there is room for [unavailable]" in done.stderr, done
    assert not (where / "ran").exists()


def test_what_is_not_held_is_said(door):
    door.watch = {"state": "partial", "missing": ["fork_rate", "cpu"], "message": "no\x1b BPF"}
    done = run(door, "true")
    assert "not held here: fork_rate, cpu: no\\u{1b} BPF (`pawl doctor`" in done.stderr and done.returncode == 0
    assert run(door, "true", options=("--quiet",)).stderr == ""


def test_ended_by_pawl_is_one_line(door):
    p = start(door, "sh", "-c", "echo ready; sleep 1000")
    line(p)
    os.kill(door.pids[0], signal.SIGKILL)  # as the watcher does
    door.end = {"why": "processes", "measured": 51, "limit": 50, "killed": 3}
    door.tell(door.ended())
    assert end(p, 137) == "pawl: stopped s_5: processes 51, limit 50 (3 processes ended)\n"


def test_a_tree_that_pawl_says_is_ended_is(door):
    p = start(door, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    line(p)
    door.tell(door.ended(why="abort", killed=1))
    assert "stopped s_5: abort (1 process ended)" in end(p, 137)


def test_pawld_comes_back(door):
    p = start(door, "sh", "-c", "echo ready; read x; exit 3", stdin=subprocess.PIPE)
    line(p)
    door.stop()
    time.sleep(0.2)
    door.start()
    assert door.of("rejoin")[0] == {"v": 1, "op": "rejoin", "session": "s_5", "token": TOKEN}
    close(p)
    end(p, 3)
    assert door.of("exited")[0]["status"] == 3


def test_pawld_is_away_when_the_command_ends(door):
    p = start(door, "sh", "-c", "echo ready; read x; exit 3", stdin=subprocess.PIPE)
    line(p)
    door.stop()
    close(p)
    live.until("the command has ended", lambda: not live.alive(door.pids[0]))
    door.start()
    door.of("rejoin")
    assert door.of("exited")[0]["status"] == 3
    end(p, 3)


@pytest.mark.parametrize("ends", ["before", "after"])  # the command, before or after pawld has been asked
def test_pawld_does_not_know_it_any_more(door, ends):
    p = start(door, "sh", "-c", "echo ready; read x; exit 3", stdin=subprocess.PIPE)
    line(p)
    door.script["rejoin"] = {"v": 1, "op": "rejoin", "error": {"code": "unauthenticated", "message": "unknown"}}
    door.stop()
    if ends == "before":
        close(p)
        live.until("the command has ended", lambda: not live.alive(door.pids[0]))
    door.start()
    door.of("rejoin")
    if ends == "after":
        close(p)
    assert "does not take s_5 back" in end(p, 3)


# ---- what the command is given


def test_session_by_descriptor(door, where):
    extra = os.open("/", os.O_RDONLY)
    env = os.environ | {"PAWL_DIR": "/x", "PAWL_SOCKET": "/x", "PAWL_KEY": "/x", "PAWL_OPERATOR_TOKEN": "x", "PAWL_X": "", "PAWL_" + "X" * 300: "x", "KEPT": "a b\nc"}
    done = python(door, """
        import fcntl, json, os, subprocess, sys
        print(json.dumps({k: v for k, v in os.environ.items() if k.startswith("PAWL")}))
        fd = int(os.environ["PAWL_SESSION_FD"])
        print(os.pread(fd, 4096, 0).decode())
        print(fcntl.fcntl(fd, 1034), fcntl.fcntl(fd, fcntl.F_GETFD))
        for f in (lambda: os.write(fd, b"x"), lambda: os.truncate(fd, 0)):
            try: f()
            except PermissionError: print("sealed")
        print(os.environ["KEPT"] == "a b\\nc")
        print(sorted(int(x) for x in os.listdir("/proc/self/fd")))
        sys.stdout.flush()
        subprocess.run(["cat", f"/proc/self/fd/{fd}"], close_fds=False)
        """, env=env, pass_fds=(extra,))
    os.close(extra)
    assert done.returncode == 0, done
    rows = done.stdout.splitlines()
    want = {"session": "s_5", "token": TOKEN, "socket": str(where / "agent.sock"), "agent": "local"}
    assert list(json.loads(rows[0])) == ["PAWL_SESSION_FD"] and json.loads(rows[1]) == want
    assert rows[2] == "15 0" and rows[3:5] == ["sealed", "sealed"]  # all four seals; no close-on-exec
    assert rows[5] == "True"
    assert json.loads(rows[6]) == [0, 1, 2, 3, 120]  # 3 is the listing itself
    assert json.loads(rows[7]) == want


def test_words_folder_and_streams_are_as_they_were(door, where):
    big = ["x" * 100_000, "", "a\nb", "\u00e9"] + ["y"] * 5000
    done = python(door, "import os,sys; print(len(sys.argv), len(sys.argv[1]), sys.argv[2:5], os.getcwd()); print(sys.stdin.read()); sys.exit(4)",
                  *big, cwd=where, stdin=None, input="in")
    assert done.returncode == 4 and done.stdout == f"5005 100000 ['', 'a\\nb', '\u00e9'] {where}\nin\n"


def test_standard_streams_may_be_closed(door):
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words(door, "sh", "-c", "exit 9")], timeout=60)
    assert done.returncode == 9


def test_signals_are_as_they_were(door):
    text = "for l in open('/proc/self/status'):\n    if l.startswith(('SigBlk','SigIgn')): print(l.split()[1])"
    plain = subprocess.run([PY, "-S", "-c", text], capture_output=True, text=True).stdout
    assert run(door, PY, "-S", "-c", text).stdout == plain
    nohup = subprocess.run(["nohup", *words(door, PY, "-S", "-c", text)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert int(nohup.stdout.split()[1], 16) & 1, nohup  # HUP stays ignored


@ROOT
def test_user(door):
    done = run(door, "sh", "-c", "id -u; id -G; echo $HOME $USER; cat /proc/self/status | grep -c '^Cap.*:.0000000000000000$'", options=("--user", "nobody"))
    assert done.returncode == 0 and done.stdout.splitlines() == ["65534", "65534", "/nonexistent nobody", "5"], done


# ThreadSanitizer has a thread, and with two there is no user namespace
PLAIN = [] if "tsan" in live.BUILD.name or not live.user_namespaces() else [((), 65534)]


@ROOT
@pytest.mark.parametrize("options, uid", [((), 0), (("--user", "nobody"), 0), *PLAIN])
def test_hidden_paths(door, where, options, uid):
    keys, operator = where / "keys", where / "op"
    keys.mkdir()
    operator.mkdir()
    (keys / "entry.key").write_text("KEY")
    other = WatchDoor(str(operator / "operator.sock")).start()
    for p in (keys, operator):
        os.chown(p, uid, uid)
    door.launch["hide"] = [str(keys), str(operator)]
    who = {"user": uid, "group": uid} if uid else {}
    done = python(door, f"""
        import os, socket
        print(os.listdir({str(keys)!r}), os.listdir({str(operator)!r}))
        try: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect({str(operator / "operator.sock")!r})
        except FileNotFoundError: print("no such door")
        try: os.listdir("/proc/%d/root" % os.getppid())
        except PermissionError: print("no way round")
        """, options=options, cwd=where, **who)
    other.stop()
    assert done.stdout.splitlines() == ["[] []", "no such door", "no way round"] and done.returncode == 0, done
    assert (keys / "entry.key").read_text() == "KEY"
    assert str(where) not in pathlib.Path("/proc/self/mountinfo").read_text()


# ---- signals and stops

TRAPS = """
import os, signal, sys
seen = []
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGQUIT):
    signal.signal(s, lambda n, f: os.write(1, f"{signal.Signals(n).name}\\n".encode()))  # print() does not bear a second one meanwhile
print(os.getpid(), flush=True)
while True: signal.pause()
"""


def test_signals_sent_to_us_alone_are_passed_on(door):
    p = start(door, PY, "-c", TRAPS)
    pid = int(line(p))
    for s in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGINT"):
        p.send_signal(getattr(signal, s))
        assert line(p) == s
    os.kill(pid, signal.SIGKILL)
    end(p, 137)


def test_default_of_a_passed_signal(door):
    p = start(door, "sh", "-c", "echo ready; exec sleep 1000")
    line(p)
    p.send_signal(signal.SIGTERM)
    end(p, 143)


def test_what_the_tree_sends_is_not_sent_back(door):
    done = python(door, """
        import os, signal, time
        n = 0
        def seen(*a):
            global n
            n += 1
        signal.signal(signal.SIGUSR1, seen)
        if os.fork() == 0:
            os.killpg(0, signal.SIGUSR1)
            os._exit(0)
        os.wait()
        t = time.monotonic()
        while time.monotonic() < t + 0.5: time.sleep(0.05)
        print(n)
        """, start_new_session=True)
    assert done.stdout == "1\n" and done.returncode == 0, done


def test_interrupted_before_there_is_a_command(door, where):
    door.script["run"] = []  # no answer
    p = start(door, "touch", str(where / "ran"))
    door.of("run")
    p.send_signal(signal.SIGTERM)
    end(p, 143)
    assert not (where / "ran").exists() and not live.alive(door.pids[0])


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_stop_and_continue(door):
    p = start(door, PY, "-c", TRAPS, process_group=0)  # as a shell with job control does
    pid = int(line(p))
    os.kill(pid, signal.SIGSTOP)
    live.until("pawl run stops too", lambda: state(p.pid) == "T" and state(pid) == "T")
    p.send_signal(signal.SIGCONT)
    assert line(p).startswith("SIGCONT")  # it may come twice, the second while the first is being printed
    live.until("both go on", lambda: state(p.pid) != "T" and state(pid) != "T")
    os.kill(pid, signal.SIGKILL)
    end(p, 137)


STOPS = "echo $$; kill -STOP $$; exit 3"


def test_a_command_that_stops_where_nobody_continues_it(door):
    """No job control above: `pawl run` must not stop with it, or the end of the tree would never be heard."""
    p = start(door, "sh", "-c", STOPS, start_new_session=True)
    pid = int(line(p))
    live.until("it has stopped", lambda: state(pid) == "T")
    door.tell(door.ended(why="wall", killed=1))
    assert "stopped s_5: wall" in end(p, 137)


def test_a_stopped_command_is_continued_from_outside(door):
    p = start(door, "sh", "-c", STOPS, start_new_session=True)
    pid = int(line(p))
    live.until("it has stopped", lambda: state(pid) == "T")
    time.sleep(0.3)
    assert (state(pid), state(p.pid)) == ("T", "S")  # and it is not woken by us
    p.send_signal(signal.SIGCONT)
    end(p, 3)


def test_orphans_do_not_stay(door):
    done = run(door, "sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait_for=1; sleep 0.3; exit 5", stderr=subprocess.DEVNULL, capture_output=False,
               stdout=subprocess.PIPE)
    pid = int(done.stdout)
    assert done.returncode == 5 and not os.path.exists(f"/proc/{pid}")


def test_killed_while_the_child_is_held(door):
    door.script["run"] = []
    p = start(door, "sleep", "1000")
    door.of("run")
    p.kill()
    p.communicate()
    live.until("the held child is gone", lambda: not live.alive(door.pids[0]))


def test_killed_while_the_command_runs_closes_the_door(door):
    """Then the tree is pawld's to end: its life line has gone."""
    p = start(door, "sh", "-c", "echo ready; exec sleep 1000")
    line(p)
    p.kill()
    live.until("the connection has closed", lambda: not door.conns)
    os.kill(door.pids[0], signal.SIGKILL)
    p.communicate()


# ---- a terminal


class Tmux:
    def __init__(self, where):
        self.words = ["tmux", "-S", str(where / "tmux"), "-f", "/dev/null"]
        self.do("new-session", "-d", "-x", "150", "-y", "50", "env", "PS1=outer> ", "bash", "--norc", "--noprofile", "-i")

    def do(self, *words):
        return subprocess.run([*self.words, *words], check=True, capture_output=True, text=True, timeout=20).stdout

    def type(self, *keys):
        self.do("send-keys", *keys)

    def screen(self):
        return self.do("capture-pane", "-p")

    def see(self, pattern):
        try:
            return live.until(pattern, lambda: re.search(pattern, self.screen(), re.M), 15)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not on\n{self.screen()}") from None


@pytest.fixture
def tmux(where):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is missing")
    t = Tmux(where)
    yield t
    t.do("kill-server")


def test_interactive_bash_in_a_terminal(door, tmux):
    shell = " ".join(words(door, "env", "'PS1=in>> '", "bash", "--norc", "--noprofile", "-i", options=("--quiet",)))
    tmux.see(r"^outer>")
    tmux.type(shell, "Enter")
    tmux.see(r"^in>>")
    assert "job control" not in tmux.screen()
    tmux.type("sleep 1000", "Enter")
    tmux.see(r"^in>> sleep 1000\n\s*$")
    tmux.type("C-z")
    tmux.see(r"Stopped +sleep 1000")
    tmux.type("jobs; echo on$((1+1))", "Enter")
    tmux.see(r"^on2")
    tmux.type("fg", "Enter")
    tmux.see(r"fg\nsleep 1000")
    tmux.type("C-c")
    tmux.see(r"\^C\nin>>$")
    tmux.type("echo still $((3+4)); tty; exit 6", "Enter")
    tmux.see(r"^still 7")
    tmux.see(r"^outer>$")
    tmux.type("echo status $?", "Enter")
    tmux.see(r"^status 6")


def test_stopped_and_continued_from_the_shell(door, tmux):
    tmux.see(r"^outer>")
    tmux.type(" ".join(words(door, "sleep", "1000", options=("--quiet",))), "Enter")
    door.of("run")
    live.until("it runs", lambda: "sleep" in pathlib.Path(f"/proc/{door.pids[0]}/comm").read_text())
    tmux.type("C-z")
    tmux.see(r"Stopped")
    assert state(door.pids[0]) == "T"
    tmux.type("bg", "Enter")
    live.until("it goes on", lambda: state(door.pids[0]) != "T")
    tmux.type("fg", "Enter")
    tmux.see(r"^outer> fg")
    tmux.type("C-c")
    tmux.type("echo status $?", "Enter")
    tmux.see(r"^status 130")
    assert door.of("exited")[0]["status"] == 130


def test_hangup_of_the_terminal(door):
    """The terminal's end reaches the command by itself; nothing of it stays."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(live.PAWL, words(door, "sleep", "1000", options=("--quiet",)))
    door.of("run")
    live.until("it runs", lambda: "sleep" in pathlib.Path(f"/proc/{door.pids[0]}/comm").read_text())
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    assert door.of("exited")[0]["status"] == 129


# ---- a pawld of its own

POLICY = "pawl: 1\nname: own\ndefault: deny\n...\n"
FAKE = f"""#!{PY}
import os, signal, sys, time
sys.path.insert(0, {str(live.ROOT / "tests" / "support")!r})
from scripted_door import WatchDoor
d = sys.argv[sys.argv.index("--dir") + 1]
open(d + "/starts", "a").write("x")
if os.path.exists({{fail!r}}):
    how = open({{fail!r}}).read()
    print("pawld: \\x1b[1mno can do", file=sys.stderr, flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "once":
        os.unlink({{fail!r}})
    sys.exit(int(how) if how.isdigit() else 75)
w = WatchDoor(d + "/run/watch.sock")
open(d + "/pid", "w").write(str(os.getpid()))
def stop(*a):
    open(d + "/stopped", "w").write(repr(w.ops()))
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
time.sleep(0.3)
w.start()
while True: signal.pause()
"""


@pytest.fixture
def own(where):
    """pawl with a scripted pawld beside it, a policy and a home."""
    bin = where / "bin"
    bin.mkdir()
    shutil.copy2(live.PAWL, bin / "pawl")
    (bin / "pawld").write_text(FAKE.format(fail=str(where / "fail")))
    (bin / "pawld").chmod(0o755)
    (where / "p.yaml").write_text(POLICY)
    (where / "p.yaml").chmod(0o600)

    def words(*command, options=()):
        return [str(bin / "pawl"), "run", "--policy", str(where / "p.yaml"), *options, "--", *command]

    words.env = {"PATH": os.environ["PATH"], "HOME": str(where), "PAWL_DIR": str(where / "home")}
    words.where = where
    words.folders = lambda: sorted((where / "home" / "runs").iterdir())
    return words


def test_own_pawld(own):
    done = subprocess.run(own("sh", "-c", "exit 3"), env=own.env, capture_output=True, text=True, timeout=60)
    (folder,) = own.folders()
    assert done.returncode == 3 and done.stderr == f"pawl: log in {folder}; pawl log verify --dir {folder}\n", done
    assert re.fullmatch(r"\d{8}T\d{6}Z-\d+", folder.name)
    assert (folder / "policy.yaml").read_text() == POLICY and (folder / "keys" / "entry.key").exists()
    assert (folder / "stopped").read_text() == "['run', 'exited']"
    assert (folder.stat().st_mode & 0o777, (folder / "policy.yaml").stat().st_mode & 0o777) == (0o700, 0o600)
    assert not live.alive(int((folder / "pid").read_text()))
    done = subprocess.run(own("true", options=("--quiet",)), env=own.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and len(own.folders()) == 2


@ROOT
def test_own_pawld_lets_the_user_pass(own):
    done = subprocess.run(own("sh", "-c", "test -w %s && ls %s" % ("$(ls -d {0}/home/runs)".format(own.where), own.where / "home"),
                              options=("--user", "nobody", "--quiet")), env=own.env, capture_output=True, text=True, timeout=60)
    (folder,) = [own.where / "home" / "runs" / x for x in os.listdir(own.where / "home" / "runs")]
    assert "cannot reach" not in done.stderr and done.returncode != 0, done
    assert [(folder / x).stat().st_mode & 0o777 for x in ("", "run", "keys", "state", "log", "run/operator")] == [0o711, 0o711, 0o700, 0o700, 0o700, 0o700]


def test_own_pawld_that_cannot_start(own):
    (own.where / "fail").write_text("70")
    done = subprocess.run(own("touch", str(own.where / "ran")), env=own.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125 and "pawl run: pawld: \\u{1b}[1mno can do\n" in done.stderr and "did not get ready" in done.stderr, done
    assert not (own.where / "ran").exists()


def started(own):
    """Of a run that goes on: `pawl run`, its folder."""
    p = subprocess.Popen(own("sh", "-c", "echo ready; read x; exit 3"), env=own.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line(p)
    return p, own.folders()[0]


def starts(folder):
    return len((folder / "starts").read_text())


def strike(folder):
    """Kills the scripted pawld; its number is looked at until it is a living one's."""
    def pid():
        try:
            got = int((folder / "pid").read_text())
        except ValueError:  # it is being written
            return 0
        return got if live.alive(got) else 0
    os.kill(live.until("there is a pawld", pid, 30), signal.SIGKILL)


def keepers(p):
    return [int(x) for x in os.listdir("/proc") if x.isdigit() and parent(int(x)) == p.pid and comm(int(x)) == "pawl\n"]


def test_own_pawld_that_dies_at_each_start(own):
    (own.where / "fail").write_text("killed")
    done = subprocess.run(own("true"), env=own.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125 and "did not get ready" in done.stderr, done
    assert starts(own.folders()[0]) == 5


@pytest.mark.parametrize("status", ["0", "65"])
def test_own_pawld_that_no_start_mends(own, status):
    """Killed, it is started again; then it ends in order, or says that its log is damaged: nobody is to start that one again, nor to wait for it."""
    p, folder = started(own)
    (own.where / "fail").write_text(status)
    strike(folder)
    live.until("its keeper has ended", lambda: not keepers(p), 20)
    assert starts(folder) == 2
    close(p)
    assert "did not say that s_5 has ended" in end(p, 3)


def test_own_pawld_killed_now_and_then(own):
    """More often than one may die in a row at its start, but one of them had lived."""
    p, folder = started(own)
    for n in range(1, 8):
        if n == 4:
            time.sleep(6)
        strike(folder)
        live.until("there is another", lambda: starts(folder) == n + 1, 20)
    close(p)
    end(p, 3)
    assert (folder / "stopped").read_text() == "['rejoin', 'exited']"


def test_own_pawld_is_killed_after_its_launcher(own):
    """The tree is still to be ended: another one is started, and again where what the first left is in its way."""
    p, folder = started(own)
    (own.where / "fail").write_text("once")
    p.kill()
    time.sleep(0.5)
    strike(folder)
    live.until("there is a third", lambda: starts(folder) == 3 and not (own.where / "fail").exists(), 20)
    live.until("it serves", lambda: (folder / "run" / "watch.sock").exists() and live.alive(int((folder / "pid").read_text() or 0)), 20)
    os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
    live.until("it has ended in order", lambda: (folder / "stopped").exists(), 20)
    p.communicate()
    time.sleep(1)
    assert starts(folder) == 3


def test_own_policy_that_cannot_be_loaded(own):
    (own.where / "p.yaml").write_text("pawl: 1\nname: own\ndefualt: deny\n...\n")
    done = subprocess.run(own("true"), env=own.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125 and "p.yaml:3:" in done.stderr and not (own.where / "home").exists(), done


def test_own_pawld_outlives_a_killed_launcher_for_the_end_of_the_tree(own):
    p = subprocess.Popen(own("sh", "-c", "echo ready; exec sleep 1000"), env=own.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line(p)
    (folder,) = own.folders()
    pid = int((folder / "pid").read_text())
    command = live.until("it is sleep by now", lambda: [int(x) for x in os.listdir("/proc") if x.isdigit() and parent(int(x)) == p.pid and "sleep" in comm(int(x))])
    p.kill()
    p.wait()
    assert live.alive(pid)
    live.until("then it is ended", lambda: (folder / "stopped").exists(), 30)
    assert len(command) == 1
    os.kill(command[0], signal.SIGKILL)  # the scripted one ends no tree
    p.communicate()


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def test_own_pawld_is_not_reached_by_the_terminals_signals(own):
    p = subprocess.Popen(own("sh", "-c", "trap 'exit 8' INT; echo ready; while :; do sleep 0.1; done"), env=own.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, start_new_session=True)
    line(p)
    (folder,) = own.folders()
    assert os.getsid(int((folder / "pid").read_text())) != p.pid
    os.killpg(p.pid, signal.SIGINT)
    end(p, 8)
    assert (folder / "stopped").read_text() == "['run', 'exited']"
