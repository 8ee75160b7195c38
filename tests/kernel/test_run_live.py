"""`pawl run` on a real pawld: the tree is watched, ended when it should be, and in a log that verifies.

The launcher's own side is tests/operator/test_run.py's; escape tricks and bombs are the other files' here.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import live  # noqa: E402

PY = "/usr/bin/python3"
POLICY = """pawl: 1
name: run-test
default: deny
rules:
  - {{id: work, allow: [work]}}
watch: {{{watch}}}
...
"""
HOOK = live.ROOT / "hooks" / "python"


@pytest.fixture
def home():
    path = pathlib.Path(tempfile.mkdtemp(prefix="pawl-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def watched():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    probe = subprocess.run([live.PAWLD, "--probe"], capture_output=True, text=True)
    if '{"name":"tracing","state":"on"' not in probe.stdout:
        pytest.skip(f"the kernel's programs cannot be loaded here: {probe.stdout}{probe.stderr}")


def entries(folder):
    done = subprocess.run([live.PAWL, "log", "show", "--json", "--dir", folder], capture_output=True, text=True, check=True)
    return [json.loads(x) for x in done.stdout.split("\n") if x]


class Own:
    """pawl run --policy, and what is left of it."""

    def __init__(self, home, watch="processes: 20", uid=0):
        self.home, self.uid = home, uid
        (home / "p.yaml").write_text(POLICY.format(watch=watch))
        (home / "p.yaml").chmod(0o600)
        self.bin = live.PAWL
        if uid:
            for name in ("pawl", "pawld"):
                shutil.copy2(live.BUILD / name, home / name)
            self.bin = home / "pawl"
            os.chown(home, uid, uid)
            os.chown(home / "p.yaml", uid, uid)

    def words(self, *command, options=()):
        return [str(self.bin), "run", "--policy", str(self.home / "p.yaml"), "--dir", str(self.home), *options, "--", *command]

    def how(self):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)} | {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        return {"env": env, "text": True, "cwd": self.home} | ({"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid else {})

    def run(self, *command, options=()):
        return subprocess.run(self.words(*command, options=options), capture_output=True, timeout=120 * live.SLOW, stdin=subprocess.DEVNULL, **self.how())

    def start(self, *command, options=()):
        return subprocess.Popen(self.words(*command, options=options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **self.how())

    @property
    def folder(self):
        (folder,) = (self.home / "runs").iterdir()
        return folder

    def log(self):
        done = subprocess.run([live.PAWL, "log", "verify", "--dir", self.folder], capture_output=True, text=True)
        assert done.returncode in (0, 10), done  # 10: there is no anchor
        return entries(self.folder)

    def end(self):
        """The last words on the tree, and that its session was closed after them."""
        log = self.log()
        rows = [e for e in log if e["kind"] == "watch"]
        assert rows[0]["action"] == "attach" and rows[0]["session"] == "s_1" and rows[-1]["action"] == "end", rows
        kinds = [e["kind"] for e in log]
        assert "session" in kinds[kinds.index("watch") :], kinds
        return rows[-1]


def test_a_watched_command(watched, home):
    own = Own(home)
    done = own.run("sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n") and "not held" not in done.stderr, done
    assert own.end()["why"] == "ended"


def test_over_the_limit_is_the_end(watched, home):
    own = Own(home, "processes: 8")
    done = own.run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 1000 & done; wait")
    assert done.returncode == 137 and re.search(r"^pawl: stopped s_1: processes \d+, limit 8 \(\d+ processes ended\)$", done.stderr, re.M), done
    assert own.end()["why"] == "processes"


def test_what_it_leaves_behind_is_ended(watched, home):
    own = Own(home)
    done = own.run(PY, "-c", "import os,time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        print(os.getpid(), flush=True)\n"
                   "        os.closerange(0, 3)\n        time.sleep(1000)\n    os._exit(0)\ntime.sleep(0.5)\nos._exit(4)")
    assert done.returncode == 4 and not os.path.exists(f"/proc/{int(done.stdout)}"), done
    assert "s_1: 1 process that the command had left ended" in done.stderr


def test_a_killed_launcher_ends_the_tree(watched, home):
    own = Own(home)
    p = own.start("sh", "-c", "setsid sleep 1000 & echo $!; echo $$; wait")
    pids = [int(p.stdout.readline()) for _ in range(2)]
    p.kill()
    p.communicate()
    live.until("the tree has ended", lambda: not any(live.alive(x) for x in pids), 30)
    live.until("its pawld has ended", lambda: entries(own.folder)[-1]["kind"] == "stop", 60)
    assert own.end()["why"] == "launcher"


def watcher_of(own):
    return int(next(own.folder.glob("**/pawld.pid")).read_text())


def is_back(own, before):
    try:
        return watcher_of(own) != before and live.alive(watcher_of(own))
    except (StopIteration, ValueError):
        return False


def test_its_pawld_is_started_again(watched, home):
    """Killed, twice: the tree goes on, and its end is in the log that goes on."""
    own = Own(home)
    p = own.start("sh", "-c", "echo on; while [ ! -e go ]; do sleep 0.1; done; exit 3")
    assert p.stdout.readline() == "on\n"
    for _ in range(2):
        watcher = watcher_of(own)
        os.kill(watcher, signal.SIGKILL)
        live.until("there is another pawld", lambda: is_back(own, watcher), 30)
    (home / "go").touch()
    said = p.communicate(timeout=60 * live.SLOW)
    assert p.returncode == 3, said
    log = own.log()
    assert own.end()["why"] == "ended" and sum(e["kind"] == "start" for e in log) == 3
    assert [e["why"] for e in log if e["kind"] == "stop"] == ["the watcher is gone"] * 2 + ["told to stop"]


def test_launcher_and_pawld_killed_together(watched, home):
    """Nobody is there to be served, but a tree that has to end."""
    own = Own(home)
    p = own.start("sh", "-c", "setsid sleep 1000 & echo $!; echo $$; wait")
    pids = [int(p.stdout.readline()) for _ in range(2)]
    os.kill(watcher_of(own), signal.SIGKILL)
    p.kill()
    p.communicate()
    live.until("the tree has ended", lambda: not any(live.alive(x) for x in pids), 30)
    live.until("its pawld has ended", lambda: entries(own.folder)[-1]["kind"] == "stop", 60)
    assert own.end()["why"] == "launcher"


@pytest.mark.parametrize("options", [(), ("--user", "nobody")])
def test_session_in_python(watched, home, options):
    own = Own(home)
    shutil.copytree(HOOK / "pawl", home / "python" / "pawl")  # where nobody gets at it, too: the checkout may be in root's home
    program = f"import sys\nsys.path.insert(0, {str(home / 'python')!r})\nimport pawl\n" + """
@pawl.guard
def work(): return pawl.current_session().id
print(work())
with pawl.Session() as s: print(work(), s.id)
@pawl.guard
def other(): print('ran')
try: other()
except pawl.Denied as e: print(e.code)
"""
    done = own.run(PY, "-B", "-c", program, options=options)
    rows = done.stdout.split()
    assert done.returncode == 0 and rows[0] == "s_1" and rows[1] == rows[2] != "s_1" and rows[3] == "default", done
    assert any(e["kind"] == "session" and e.get("parent") == "s_1" for e in own.log())


SEE = """
import json, os, socket, sys
d = json.loads(os.pread(int(os.environ["PAWL_SESSION_FD"]), 4096, 0))["socket"].removesuffix("/run/agent.sock")
def said(f, *a):
    try: return str(f(*a))
    except OSError as e: return type(e).__name__
for name in ("keys", "state", "log", "run/operator"): print(name, said(os.listdir, d + "/" + name))
print("policy", said(open, d + "/policy.yaml"))
print("operator", said(socket.socket(socket.AF_UNIX).connect, d + "/run/operator/operator.sock"))
print("agent", said(socket.socket(socket.AF_UNIX).connect, d + "/run/agent.sock"))
print("launcher", said(os.kill, os.getppid(), 0))
"""


@pytest.mark.parametrize("uid, options", [(0, ()), (0, ("--user", "nobody")), (65534, ())])
def test_what_is_hidden(home, uid, options):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    own = Own(home, "exec: none", uid)
    done = own.run(PY, "-c", SEE, options=("--allow-degraded", *options))
    assert done.returncode == 0, done
    if uid and not live.user_namespaces():  # then Landlock alone shuts the files, and that is said
        assert "hidden: partial" in done.stderr and "policy PermissionError" in done.stdout and "launcher PermissionError" in done.stdout, done
        return
    for name in ("keys", "state", "log", "run/operator"):
        assert f"{name} []\n" in done.stdout, done
    assert re.search(r"policy PermissionError", done.stdout) and re.search(r"operator (FileNotFoundError|PermissionError)", done.stdout), done
    assert "agent None\n" in done.stdout and "launcher PermissionError" in done.stdout, done


AGAIN = """
import json, os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from sp import Stream
d = json.loads(os.pread(int(os.environ["PAWL_SESSION_FD"]), 4096, 0))
pid = os.fork()
if pid == 0: time.sleep(60)
with Stream(d["socket"]) as s: print(s.ask({"v": 1, "op": "session.open", "agent": "local"})["error"]["code"])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
    s.connect(d["socket"].replace("agent.sock", "watch.sock"))
    for op, fds in (("run", [os.pidfd_open(pid)]), ("rejoin", [])):
        who = {"agent": "local", "allow_degraded": True} if fds else {"session": d["session"], "token": d["token"]}
        socket.send_fds(s, [json.dumps({"v": 1, "op": op, **who}).encode()], fds)
        print(json.loads(s.recv(65536)).get("error", {}).get("code"), flush=True)
open("work/over", "w")  # beside what is hidden nothing new can be made where Landlock alone hides it
"""


@pytest.mark.parametrize("script", ['exec "$@"', '(setsid "$@" &); while [ ! -e work/over ]; do sleep 0.1; done'])
def test_inside_a_plain_users_tree_too(home, script):
    """There are no cgroups to tell by: its ancestors do, or that the launcher has adopted it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a plain user")
    own = Own(home, "exec: none", 65534)
    shutil.copy2(live.ROOT / "tests/support/sp.py", home)
    (home / "work").mkdir()
    (home / "work").chmod(0o777)
    done = own.run("sh", "-c", script, "sh", PY, "-B", "-c", AGAIN, home, options=("--allow-degraded",))
    assert done.returncode == 0 and done.stdout.split() == ["unauthenticated"] * 3, (done.returncode, done.stdout, done.stderr)


def test_a_plain_user_is_told_what_does_not_hold(home):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a plain user")
    own = Own(home, "processes: 20", 65534)
    done = own.run("touch", str(home / "ran"))
    assert done.returncode == 125 and "[watch_required]; `pawl doctor`" in done.stderr and not (home / "ran").exists(), done
    done = own.run("sh", "-c", "exit 6", options=("--allow-degraded",))
    assert done.returncode == 6 and "not held here: processes" in done.stderr, done


def test_the_rest_is_killed_and_comes_back(watched):
    with live.Live(POLICY.format(watch="processes: 20")) as pawld:
        pawld.start()
        p = subprocess.Popen([live.PAWL, "run", "--dir", pawld.dir, "--", "sh", "-c", "echo ready; read x; exit 7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "ready\n"
        os.kill(pawld.rest_pid, signal.SIGKILL)
        pawld.wait_answers()
        time.sleep(6)  # longer than a launcher may be away: it has come back, or the tree would be ended
        out, err = p.communicate("x\n", timeout=60)
        assert p.returncode == 7, err
        pawld.rest_pid = pawld.status()["pid"]["rest"]
        (end,) = [e for e in entries(pawld.dir) if e["kind"] == "watch" and e["action"] == "end"]
        assert end["why"] == "ended", end
        pawld.stop()


def test_without_a_watcher(home):
    """Nobody tells that the tree has ended: what fell to the launcher is ended by it, and it does not wait for more."""
    with live.Live(POLICY.format(watch="processes: 20")) as pawld:
        pawld.start("--no-watch")
        words = [live.PAWL, "run", "--dir", pawld.dir]
        done = subprocess.run([*words, "--", "true"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 125 and "nothing watches here" in done.stderr, done
        script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.3; exit 3"
        done = subprocess.run([*words, "--allow-degraded", "--", "sh", "-c", script], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 3 and "did not say" not in done.stderr and not os.path.exists(f"/proc/{int(done.stdout)}"), done
        assert [e["op"] if "op" in e else e.get("action") for e in entries(pawld.dir) if e["kind"] == "session"][-1] == "close"
        pawld.stop()
