"""The watch door on a live pawld: what it takes, what it refuses, and what the log says of it."""
from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

import live
from scripted_launcher import Child, Door, policy


def door(d: live.Live) -> Door:
    return Door(str(d.dir / "run" / "watch.sock"))


def watch_entries(d: live.Live) -> list[dict[str, Any]]:
    return [e["body"] for e in d.entries() if e["body"]["kind"] == "watch"]


def wait_end(d: live.Live, n: int = 1) -> list[dict[str, Any]]:
    """The watch entries, once n trees have ended and their sessions are closed."""
    def ends():
        got = [e["body"] for e in d.entries()]
        return sum(e.get("action") == "end" for e in got) >= n and got
    live.until("the end of the tree is in the log", ends)
    live.until("no session is live", lambda: d.status()["sessions"]["live"] == 0)
    return watch_entries(d)


def sound(d: live.Live) -> None:
    """Stopped in order, verified, and judged again."""
    assert d.stop() == 0
    assert d.verify().returncode in (0, 10, 11), d.verify()
    code, said = d.replay()
    assert code == 0, json.dumps(said)


def error(got: dict[str, Any]) -> tuple[str, str | None]:
    return got["error"]["code"], got["error"]["field"]


def test_a_life(kernel):
    with live.Live(policy("exec: log, processes: 20, wall: 60s")) as d, Child("/bin/true; /bin/true; exit 3") as child:
        d.start()
        with door(d) as c:
            got = c.run(child, root="/srv", labels={"a": "b"}, limits={"money": "2"})
            assert got["watch"]["state"] == "on" and got["watch"]["missing"] == [] and "rlimits" not in got["launch"]
            hidden = got["launch"]["hide"]
            for path in ("state", "log", "keys", "run/operator", "policy.yaml"):
                assert os.path.realpath(d.dir / path) in hidden
            assert got["launch"]["agent_socket"] == os.path.realpath(d.agent)
            seq = got["log"]["seq"]
            assert any(e["action"] == "attach" and e["pid"] == child.pid for e in watch_entries(d)), "answered before its entry"
            child.release()
            assert os.waitstatus_to_exitcode(child.wait()) == 3
            who = {"session": got["session"], "token": got["token"]}
            assert c.ask({"v": 1, "op": "exited", "status": 3, **who}) == {"v": 1, "op": "exited", "session": got["session"]}
            ended = c.hear()
            assert ended["op"] == "ended" and ended["session"] == got["session"] and ended["killed"] == 0
        entries = wait_end(d)
        assert [e["action"] for e in entries if e["action"] != "execs"] == ["attach", "end"]
        starts = [p for e in entries if e["action"] == "execs" for p in e["programs"]]
        assert sum(p["count"] for p in starts if p["path"] == "/bin/true") == 2
        assert all("argv_mac" in p and "argv" not in p for p in starts)
        assert d.entries()[seq]["body"]["labels"] == {"a": "b"}
        sound(d)


def test_a_program_and_a_limit(kernel):
    bomb = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 30 & done; wait"
    with live.Live(policy("deny_exec: [/usr/bin/id], processes: 8, wall: 60s",
                          "breakers:\n  b: {open: {breaches: 2, within: 1m}}\n")) as d:
        d.start()
        with door(d) as c, Child(f"/usr/bin/id; {bomb}") as child:
            got = c.run(child)
            child.release()
            assert os.WIFSIGNALED(child.wait())
            ended = c.hear()
            assert (ended["why"], ended["limit"]) == ("processes", 8) and ended["measured"] > 8
        entries = wait_end(d)
        kill = next(e for e in entries if e["action"] == "kill")
        assert kill["why"] == "deny_exec" and kill["programs"][0]["path"] == "/usr/bin/id" and kill["total"] == 1
        breach = next(e for e in entries if e["action"] == "breach")
        assert breach["why"] == "processes" and breach["limit"] == 8
        assert breach["breakers"][0]["mode"] == "open", "two breaches open it"
        end = entries[-1]
        assert end["why"] == "processes" and end["peak"] >= 8
        row = next(r for r in d.ask_operator("session.list")["sessions"] if r["session"] == got["session"])
        assert row["watch"]["state"] == "ended" and row["watch"]["kills"] == 1 and row["watch"]["killed"]["why"] == "processes"
        with d.door() as agent:
            s = live.Session(agent)
            assert s.decide("work")["reason"]["code"] == "breaker_open"
        sound(d)


def test_state_and_abort(kernel):
    with live.Live(policy("processes: 20")) as d, Child("sleep 60 & sleep 60") as child:
        d.start()
        with door(d) as c:
            got = c.run(child)
            child.release()
            with d.door() as agent:
                def shown():
                    w = agent.ask({"v": 1, "op": "session.state", "session": got["session"], "token": got["token"]})["watch"]
                    return w if w.get("processes", {}).get("used", 0) >= 2 else None
                watch = live.until("its processes are counted", shown)
                assert watch["state"] == "live" and watch["processes"]["limit"] == 20 and watch["session"] == got["session"]
            assert d.status()["watch"]["trees"] == 1
            with d.door() as agent:
                agent.ask({"v": 1, "op": "session.close", "session": got["session"], "token": got["token"]})
            assert os.WIFSIGNALED(child.wait())
            ended = c.hear()
            assert ended["why"] == "ended" and ended["killed"] >= 1
        entries = wait_end(d)
        assert entries[-1]["killed"] >= 1 and entries[-1]["ended"]
        sound(d)


def test_the_launcher_is_its_life_line(kernel):
    with live.Live(policy("processes: 20")) as d, Child("sleep 60") as child:
        d.start()
        c = door(d)
        got = c.run(child)
        child.release()
        c.close()
        with door(d) as again:
            who = {"session": got["session"], "token": got["token"]}
            assert again.ask({"v": 1, "op": "rejoin", **who}) == {"v": 1, "op": "rejoin", "session": got["session"]}
        assert os.WIFSIGNALED(child.wait())  # nobody came back
        assert wait_end(d)[-1]["why"] == "launcher"
        with door(d) as late:
            assert error(late.ask({"v": 1, "op": "rejoin", **who}))[0] == "session_closed"
        sound(d)


def test_the_rest_dies(kernel):
    with live.Live(policy("processes: 20")) as d, Child("sleep 60") as child:
        d.start()
        c = door(d)
        got = c.run(child)
        child.release()
        os.kill(d.rest_pid, 9)
        d.wait_answers()
        c.close()
        with door(d) as again:
            who = {"session": got["session"], "token": got["token"]}
            live.until("its tree is known", lambda: "error" not in again.ask({"v": 1, "op": "rejoin", **who}))
            d.rest_pid = d.status()["pid"]["rest"]
            live.until("its tree is known again", lambda: d.status()["watch"]["trees"] == 1)
            assert again.ask({"v": 1, "op": "exited", "status": 0, **who})["op"] == "exited"
            assert os.WIFSIGNALED(child.wait())
            assert again.hear()["op"] == "ended"
        assert wait_end(d)[-1]["why"] == "ended"
        sound(d)


def test_attach_itself(kernel):
    with live.Live(policy("processes: 20")) as d:
        d.start()
        with d.door() as agent, door(d) as c, Child("sleep 60") as child:
            s = live.Session(agent)
            who = {"session": s.id, "token": s.token}
            got = c.ask({"v": 1, "op": "attach", **who}, child.pidfd)
            assert got["watch"]["state"] == "on" and "token" not in got and "launch" not in got
            assert error(c.ask({"v": 1, "op": "attach", **who}, child.pidfd))[0] == "replay_conflict"
            child.release()
        assert wait_end(d)[-1]["action"] == "end"
        sound(d)


CHAIN = """
import os, sys
for i in range(int(sys.argv[1])):
    if os.fork():
        os.read(0, 1)
        os._exit(0)
print("there", flush=True)
os.read(0, 1)
"""


def reads(pid: int) -> int:
    with open(f"/proc/{pid}/io") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("syscr:"))


def test_a_long_chain_is_looked_along_once(kernel):
    """Each of n processes below the one before it: the watcher's work grows with n, not with its square."""
    n = 300
    with live.Live(policy("wall: 60s")) as d:
        d.start()
        chain = subprocess.Popen([sys.executable, "-c", CHAIN, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert chain.stdout.readline() == b"there\n"
            with d.door() as agent, door(d) as c:
                s = live.Session(agent)
                before = reads(d.process.pid)
                got = c.ask({"v": 1, "op": "attach", "session": s.id, "token": s.token}, os.pidfd_open(chain.pid))
                assert got["watch"]["state"] == "on", got
                assert reads(d.process.pid) - before < 60 * n
        finally:
            os.killpg(chain.pid, 9)
            chain.wait()
        assert wait_end(d)[-1]["peak"] == n + 1, "somebody was left out"
        assert d.stop() == 0


INSIDE = """
import sys
sys.path.insert(0, sys.argv[1])
import live, scripted_launcher
folder, session, token = sys.argv[2:5]
def opened(**more):
    with live.Stream(folder + "/run/agent.sock") as s:
        return s.ask({"v": 1, "op": "session.open", "agent": "local", **more})
root, kid = opened(), opened(parent=session, parent_token=token)
assert root["error"]["code"] == "unauthenticated" and root["error"]["field"] == "parent", root
assert "session" in kid, kid
with scripted_launcher.Door(folder + "/run/watch.sock") as c, scripted_launcher.Child("exit 0") as child:
    got = c.run(child)
    assert got["error"]["code"] == "unauthenticated", got
    got = c.ask({"v": 1, "op": "attach", "session": kid["session"], "token": kid["token"]}, child.pidfd)
    assert got["error"]["code"] == "unauthenticated", got
    for op in ("rejoin", "exited"):
        got = c.ask({"v": 1, "op": op, "session": session, "token": token, **({"status": 0} if op == "exited" else {})})
        assert got.get("error", {}).get("code") == "unauthenticated", got
"""


def test_inside_a_tree_only_children(kernel, tmp_path):
    script = tmp_path / "inside.py"
    script.write_text(INSIDE)
    said = tmp_path / "said"
    with live.Live(policy("processes: 50")) as d:
        d.start()
        with door(d) as c:
            args = tmp_path / "args"
            with Child(f"{sys.executable} {script} $(cat {args}) 2> {said}") as child:
                got = c.run(child)
                args.write_text(f"{live.ROOT}/tests/support {d.dir} {got['session']} {got['token']}")
                with d.door() as outside:
                    assert live.Session(outside).id, "whoever runs outside is not kept out"
                child.release()
                assert os.waitstatus_to_exitcode(child.wait()) == 0, said.read_text()
        assert d.stop() == 0


AGAIN = """
import sys, time
sys.path.insert(0, sys.argv[1])
import live
tries = 0
print("up", flush=True)
while not live.pathlib.Path(sys.argv[3]).exists():
    try:
        with live.Stream(sys.argv[2]) as s:
            got = s.ask({"v": 1, "op": "session.open", "agent": "local"})
    except OSError:
        continue
    if "session" in got:
        raise SystemExit("a session of its own: " + got["session"])
    tries += got["error"]["code"] == "unauthenticated"
raise SystemExit(0 if tries else "never answered")
"""


def test_a_tree_that_is_not_named_yet_opens_nothing(kernel, tmp_path):
    """A judging process that has just begun has not heard of its trees: until the watcher has named them, a peer in a pawl cgroup is inside one."""
    script, said, over = tmp_path / "again.py", tmp_path / "said", tmp_path / "over"
    script.write_text(AGAIN)
    with live.Live(policy("processes: 50")) as d:
        d.start()
        with Child(f"exec {sys.executable} {script} {live.ROOT}/tests/support {d.agent} {over} > {said} 2>&1") as child:
            with door(d) as c:
                got = c.run(child)
                child.release()
                live.until("it asks", lambda: said.exists() and said.read_text(), 20)
                watcher, old = d.process.pid, d.rest_pid
                os.kill(old, 9)
                live.until("another judging process", lambda: [p for p in live.children(watcher) if p != old], 20)
                os.kill(watcher, 19)  # it cannot name them now
                try:
                    d.wait_answers()
                    assert d.status()["watch"]["trees"] == 0
                    time.sleep(0.3)
                finally:
                    os.kill(watcher, 18)
                live.until("its tree is known", lambda: d.status()["watch"]["trees"] == 1, 20)
                with door(d) as back:
                    back.ask({"v": 1, "op": "rejoin", "session": got["session"], "token": got["token"]})
                    over.touch()
                    assert os.waitstatus_to_exitcode(child.wait()) == 0, said.read_text()
        d.rest_pid = d.status()["pid"]["rest"]
        assert d.stop() == 0


def lent(d: live.Live) -> tuple[int, live.Stream]:
    """A connection to the agents' door that was made by a process which has ended since, and that one's number."""
    s = live.Stream(d.agent)
    s.sock.close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            try:
                made = live.Stream(d.agent)
                socket.send_fds(theirs, [b"x"], [made.sock.fileno()])
            finally:
                os._exit(0)
        theirs.close()
        s.sock = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
    s.sock.settimeout(s.timeout)
    os.waitpid(pid, 0)
    return pid, s


def test_a_number_that_is_anothers_by_now(kernel):
    """Who connected is the process, not its number: a tree could wait until somebody outside has it."""
    open_it = {"v": 1, "op": "session.open", "agent": "local"}
    with live.Live(policy("processes: 50")) as d, Child("sleep 60") as child:
        d.start()
        with door(d) as c:
            c.run(child)
            pid, s = lent(d)
            time.sleep(0.05)  # start times are told in hundredths of a second
            with s, subprocess.Popen([live.BUILD / "tests" / "kernel" / "reuse", str(pid), "60"], stdout=subprocess.PIPE, text=True) as stranger:
                try:
                    assert stranger.stdout.readline() == "ready\n"
                    assert s.ask(open_it)["error"]["code"] == "unauthenticated"
                    with live.Stream(d.agent) as own:
                        assert "session" in own.ask(open_it)
                finally:
                    os.kill(pid, 9)  # it or the stranger: nobody else has it


# ---- exec: required

REQUIRED = policy("exec: required")


def test_required_denies_who_is_not_watched(kernel):
    with live.Live(REQUIRED) as d, Child("sleep 60") as child:
        d.start()
        with d.door() as agent:
            s = live.Session(agent)
            answer = s.decide("work")
            assert answer["verdict"] == "deny" and answer["reason"]["code"] == "watch_required"
        with door(d) as c:
            got = c.run(child)
            with d.door() as agent:
                kid = live.Session(agent, parent=got["session"], parent_token=got["token"])
                answer = kid.decide("fixed")
                assert answer["verdict"] == "allow", answer["reason"]
            child.release()
        assert os.WIFSIGNALED(child.wait())  # the door was its life line
        live.until("the end is in the log", lambda: any(e["action"] == "end" for e in watch_entries(d)))
        sound(d)


@pytest.mark.parametrize("loaded", [False, True])
def test_required_without_a_watcher(loaded):
    """E16: at start, and at a reload."""
    with live.Live(policy() if loaded else REQUIRED) as d:
        if not loaded:
            code, said = d.try_start("--no-watch")
            assert code == 78 and "watch.exec is required" in said
            return
        d.start("--no-watch")
        before = d.status()["policy"]["hash"]
        d.write_policy(REQUIRED)
        seq = d.seq()
        os.kill(d.process.pid, 1)
        live.until("the refusal is in the log", lambda: d.seq() > seq)
        assert d.status()["policy"]["hash"] == before
        last = d.entries()[-1]["body"]
        assert last["loaded"] is False and "watch.exec is required" in last["message"]
        assert any(n.startswith("watch") and p["state"] == "off" for n, p in d.status()["probes"].items())


def test_without_a_watcher():
    with live.Live(policy("processes: 20, cpu: 60s")) as d, Child("exit 0") as child:
        d.start("--no-watch")
        with door(d) as c:
            assert error(c.run(child))[0] == "watch_required"
            got = c.run(child, allow_degraded=True)
            assert got["watch"]["state"] == "off" and got["watch"]["missing"] == ["processes", "cpu"]
            assert got["launch"]["rlimits"] == {"cpu": "1m", "processes": 20}
            child.release()
            child.wait()
            who = {"session": got["session"], "token": got["token"]}
            assert c.ask({"v": 1, "op": "exited", "status": 0, **who})["op"] == "exited"
        live.until("its session is closed", lambda: d.status()["sessions"]["live"] == 0)
        assert watch_entries(d) == []
        sound(d)


# ---- what it does not take

RUN = {"v": 1, "op": "run", "agent": "local"}
WHO = {"session": "s_1", "token": "00" * 32}


@pytest.mark.parametrize("body,code,field", [
    (b"", None, None),
    (b"{", "malformed", None),
    (b"[]", "malformed", None),
    (b"x" * (65 << 10), "malformed", None),
    (b'{"v":1,"op":"run","agent":"local","agent":"x"}', "malformed", "agent"),
    ({"v": 2, "op": "run", "agent": "local"}, "malformed", "v"),
    ({"v": 1, "op": "decide"}, "malformed", "op"),
    ({**RUN, "what": 1}, "malformed", "what"),
    ({**RUN, "agent": 5}, "malformed", "agent"),
    ({**RUN, "root": "relative"}, "malformed", "root"),
    ({**RUN, "limits": {"money": "25%"}}, "malformed", "limits.money"),
    ({**RUN, "allow_degraded": "yes"}, "malformed", "allow_degraded"),
    (RUN, "malformed", None),  # no pidfd
    ({"v": 1, "op": "exited", **WHO}, "malformed", "status"),
    ({"v": 1, "op": "exited", "status": 70000, **WHO}, "malformed", "status"),
    ({"v": 1, "op": "exited", "status": 0, **WHO}, "unauthenticated", None),
    ({"v": 1, "op": "rejoin", **WHO}, "unauthenticated", None),
    ({"v": 1, "op": "rejoin", **WHO, "token": "x"}, "malformed", "token"),
])
def test_refused(shared, body, code, field):
    with door(shared) as c:
        if body == b"":
            c.socket.send(b"")
            assert c.hear() is None
            return
        assert error(c.ask(body)) == (code, field)
        assert error(c.ask({"v": 1, "op": "nonsense"})) == ("malformed", "op"), "the connection goes on"


@pytest.fixture(scope="module")
def shared():
    with live.Live(policy()) as d:
        d.start("--no-watch")
        yield d


LOOKS = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else may look at pawld's descriptors")


@LOOKS
def test_descriptors(shared):
    """One pidfd, where it belongs; nothing that came along stays open."""
    def held() -> int:
        return len(os.listdir(f"/proc/{shared.rest_pid}/fd"))

    def settled() -> int:
        n = held()
        time.sleep(0.3)
        return n if held() == n else 0

    with door(shared) as c, Child("exit 0") as child:
        assert error(c.ask({"v": 1, "op": "rejoin", **WHO}))[0] == "unauthenticated"  # the connection is taken
        before = live.until("the connections of the tests before are gone", settled)
        for _ in range(20):
            assert error(c.ask({"v": 1, "op": "rejoin", **WHO}, child.pidfd)) == ("malformed", None)
            assert error(c.ask(RUN, child.pidfd, child.pidfd)) == ("malformed", None)
            assert error(c.ask({**RUN, "agent": "other"}, child.pidfd))[0] == "watch_required"
        assert held() == before


@LOOKS
def test_empty_packets_leave_no_descriptor(shared):
    fds = f"/proc/{shared.rest_pid}/fd"
    before = len(os.listdir(fds))
    for _ in range(20):
        with door(shared) as c:
            c.send(b"", 0)
            assert c.hear() is None
    live.until("no descriptor of theirs is open", lambda: len(os.listdir(fds)) <= before + 2)


ROOM = 1088  # connections of the door: WATCH_MAX_CONNS


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_refused_connections_make_room(kernel, many_files):
    """Each has asked for a tree and got none: that is no reason to keep its place."""
    with live.Live(policy("processes: 50")) as d, Child("exit 0") as gone:
        d.start()
        gone.release()
        assert os.waitstatus_to_exitcode(gone.wait()) == 0
        held = []
        try:
            for _ in range(ROOM + 5):
                held.append(door(d))
                assert error(held[-1].run(gone))[0] == "watch_required"
            with door(d) as c, Child("exit 3") as child:
                assert c.run(child)["watch"]["state"] == "on"
                child.release()
                assert os.waitstatus_to_exitcode(child.wait()) == 3
        finally:
            for c in held:
                c.close()
        assert d.stop() == 0


@LOOKS
def test_every_door_hears_again_after_descriptors_ran_out(many_files):
    """Agents take all of them and leave: a door that had nobody of its own would have had no sign to listen again."""
    with live.Live(policy()) as d:
        d.start("--no-watch")
        used = len(os.listdir(f"/proc/{d.rest_pid}/fd"))
        resource.prlimit(d.rest_pid, resource.RLIMIT_NOFILE, (used + 30, used + 30))
        agents = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for a in agents:
            a.connect(str(d.agent))
        held = []  # pawld itself opens and closes files, so a few may be free: whoever finds such a place keeps it
        live.until("few are left", lambda: len(os.listdir(f"/proc/{d.rest_pid}/fd")) > used + 25)

        def looks_in(path, kind):
            held.append(socket.socket(socket.AF_UNIX, kind))
            held[-1].settimeout(2)
            held[-1].connect(path)
            try:
                return held[-1].recv(4096)
            except TimeoutError:
                return b"taken"

        live.until("a launcher is told", lambda: b"no descriptor left" in looks_in(str(d.dir / "run" / "watch.sock"), socket.SOCK_SEQPACKET), 30)
        live.until("a person is cut off, and not left waiting", lambda: looks_in(d.operator, socket.SOCK_STREAM) == b"", 30)
        for a in agents + held:
            a.close()
        live.until("they are gone", lambda: len(os.listdir(f"/proc/{d.rest_pid}/fd")) <= used + 2)
        with door(d) as c:
            assert error(c.ask({"v": 1, "op": "rejoin", **WHO}))[0] == "unauthenticated"
        assert d.status()["mode"] == "enforce"
        assert d.stop() == 0


def test_hung_up_while_the_watcher_is_busy(kernel):
    """The watcher holds such a connection still; whoever comes next into its place is not cut off for it."""
    with live.Live(policy("processes: 50")) as d, Child("exit 0") as child:
        d.start()
        os.kill(d.watcher_pid, signal.SIGSTOP)
        try:
            with door(d) as c:
                c.send({"v": 1, "op": "run", "agent": "local"}, child.pidfd)
                live.until("it is asked for", lambda: d.status()["watch"]["asked"] == 1)
            for _ in range(3):
                with door(d) as c:
                    for _ in range(5):
                        assert error(c.ask({"v": 1, "op": "rejoin", **WHO}))[0] == "unauthenticated"
        finally:
            os.kill(d.watcher_pid, signal.SIGCONT)
        live.until("nothing is left of it", lambda: d.status()["sessions"]["live"] == 0, 30)
        assert d.stop() == 0


def test_a_rejoin_waits_for_the_answer_of_an_attach(kernel):
    with live.Live(policy("processes: 50")) as d, Child("exit 0") as child:
        d.start()
        with d.door() as agents:
            s = live.Session(agents)
            who = {"session": s.id, "token": s.token}
            os.kill(d.watcher_pid, signal.SIGSTOP)
            try:
                with door(d) as c, door(d) as other:
                    c.send({"v": 1, "op": "attach", **who}, child.pidfd)
                    live.until("it is asked for", lambda: d.status()["watch"]["asked"] == 1)
                    assert error(other.ask({"v": 1, "op": "rejoin", **who}))[0] == "unavailable"
                    os.kill(d.watcher_pid, signal.SIGCONT)
                    assert c.hear()["watch"]["held"]
                    assert "writes_under" not in next(e for e in watch_entries(d) if e["action"] == "attach")["held"], "it is not shut in"
            finally:
                os.kill(d.watcher_pid, signal.SIGCONT)
            child.release()
            child.wait()
        assert d.stop() == 0


def test_an_answer_that_would_not_fit_is_refused_first(kernel):
    folders = ", ".join(f"f{i}{'x' * 200}" for i in range(60))
    with live.Live(policy(f"writes_under: [{folders}]")) as d, Child("exit 0") as child:
        d.start()
        with door(d) as c:
            assert error(c.run(child, root="/" + "r" * 1500)) == ("malformed", "root")
            assert c.run(child, root="/srv")["launch"]["writes_under"]
        assert sum(e["body"]["kind"] == "session" for e in d.entries()) == 1


def test_many_connections(shared, many_files):
    """Idle ones make room: nobody can keep launchers out by connecting."""
    idle = [door(shared) for _ in range(ROOM + 50)]
    try:
        with door(shared) as c:
            assert error(c.ask({"v": 1, "op": "rejoin", **WHO}))[0] == "unauthenticated"
    finally:
        for c in idle:
            c.close()
    with door(shared) as c:
        assert error(c.ask({"v": 1, "op": "rejoin", **WHO}))[0] == "unauthenticated"


def test_who_does_not_read_is_cut_off(shared):
    with door(shared) as c:
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.socket.settimeout(2)
        try:
            for _ in range(20000):
                c.send({"v": 1, "op": "rejoin", **WHO})
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            pytest.fail("20,000 answers were kept for somebody who does not read")
    assert shared.answers()
