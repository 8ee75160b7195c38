"""E04, E10, E12, P10: who is started by a watched command ends with it, whatever trick it was started by. Each trick is tried bare first."""
import os
import signal
import subprocess
import sys

import pytest

from live import SLOW, Session, until, user_namespaces
from scripted_launcher import Door
from signer import Signer
from watched import Bound, Watched, left, new_mark, policy, program, said_of, skip_unless_root

TRICKS = subprocess.run([program("escape"), "list"], capture_output=True, text=True, check=True).stdout.split()
# what a watched process may fail at, being refused or killed on the way out; all else must work as it does bare
MAY_FAIL = {"memfd": "fileless", "into-cgroup": "left", "cgroup-procs": "left", "cgroup-procs-v1": "left", "setuid": None, "user-namespace": None,
            "pid-namespace": None, "cgroup-namespace": None}
TEXT = policy(exec="log", deny_exec=["/usr/bin/nc"], processes=200)
LIFE = str(int(90 * SLOW))


@pytest.fixture(scope="module")
def watch():
    skip_unless_root()
    with Watched(TEXT) as w:
        yield w.start()


@pytest.fixture
def fresh():
    """One that an abort does not close for the tests after it."""
    skip_unless_root()
    with Watched(TEXT) as w:
        w.signer = Signer().enrol(w)
        yield w.start()


@pytest.mark.parametrize("trick", TRICKS)
def test_bare_the_trick_leaves_somebody(trick):
    """Else the test below would show nothing."""
    skip_unless_root()
    bound, mark = Bound(), new_mark()
    try:
        p = bound.popen(program("escape"), trick, mark, "30", stdout=subprocess.DEVNULL)
        if trick == "user-namespace" and not user_namespaces():
            assert p.wait(30 * SLOW) == 3
            return
        assert p.wait(30 * SLOW) == 0
        # one that has a new number at every look is seen by the cgroup alone
        until("somebody is left", lambda: left(mark) or int((bound.dir / "pids.current").read_text()) > 0, 5)
    finally:
        bound.end()


@pytest.mark.parametrize("user", [None, "nobody"], ids=["root", "nobody"])
@pytest.mark.parametrize("trick", TRICKS)
def test_nobody_is_left(watch, trick, user):
    mark = new_mark()
    done, end = watch.ended(program("escape"), trick, mark, LIFE, user=user, seconds=60)
    until(f"everybody has ended; left: {said_of(left(mark))}", lambda: not left(mark), 10)
    if done.returncode == 0:
        assert "ready" in done.stdout
        assert end["why"] == "ended" and end["killed"] >= 1, end
    else:
        assert trick in MAY_FAIL and done.returncode in (3, 128 + signal.SIGKILL), done
        if done.returncode == 128 + signal.SIGKILL:
            assert MAY_FAIL[trick] is not None and watch.kills(end["session"], MAY_FAIL[trick]) >= 1, watch.watch_rows(session=end["session"])


def stays(watch, trick, mark, user=None):
    """A tree whose first process goes on living beside what it left, and the session's id."""
    before = len(watch.watch_rows(action="attach"))
    p = watch.run("/bin/sh", "-c", f"{program('escape')} {trick} {mark} {LIFE}; echo then $?; exec sleep {LIFE}", "sh", mark, user=user)
    lines = [p.stdout.readline(), p.stdout.readline()]
    assert sorted(lines) == ["ready\n", "then 0\n"], (lines, p.poll(), p.stderr.read() if p.poll() is not None else "")
    return p, watch.watch_rows(action="attach")[before]["session"]


def test_an_abort_ends_the_whole_tree_and_lists_it(fresh):
    """E12: a shell around the agent, the operator aborts: nobody of it lives, and the entry says who was ended."""
    mark = new_mark()
    p, session = stays(fresh, "double-fork", mark)
    answer = fresh.signer.order(fresh, "session.abort", session=session, reason="enough")
    assert "error" not in answer, answer
    end = fresh.end_of(session)
    until("everybody has ended", lambda: not left(mark), 10)
    assert end["why"] == "abort" and end["killed"] >= 2, end
    assert {d["comm"] for d in end["ended"]} >= {"escape"}, end
    assert p.wait(20 * SLOW) == 128 + signal.SIGKILL


def test_a_killed_launcher_ends_the_tree(watch):
    mark = new_mark()
    p, session = stays(watch, "chain", mark)
    p.kill()
    p.wait()
    end = watch.end_of(session, 30)
    assert end["why"] == "launcher", end
    until("everybody has ended", lambda: not left(mark), 10)


def test_the_wrapper_is_killed_and_the_agent_goes_with_it(watch):
    """E12 from outside: the kill hits the shell alone."""
    mark = new_mark()
    p, session = stays(watch, "double-fork", mark)
    first = next(r for r in watch.watch_rows(action="attach", session=session))["pid"]
    os.kill(first, signal.SIGKILL)
    assert p.wait(20 * SLOW) == 128 + signal.SIGKILL
    assert watch.end_of(session)["why"] == "ended"
    until("everybody has ended", lambda: not left(mark), 10)


SPAWNER = """
import os, time
for i in range(100):
    if os.fork() == 0:
        break
    time.sleep(0.01)
    if i == 20:
        print("begun", flush=True)
else:
    print("done", flush=True)
time.sleep(float(%s))
"""


def test_what_starts_while_it_is_attached_is_known(fresh):
    """E04: an agent that starts 100 a second when it comes under watch: what it had, and what came meanwhile, ends with it."""
    mark = new_mark()
    p = fresh.bound.popen(sys.executable, "-c", SPAWNER % LIFE, mark, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "begun\n"
    with fresh.door() as agent, Door(str(fresh.dir / "run" / "watch.sock")) as c:
        s = Session(agent)
        got = c.ask({"v": 1, "op": "attach", "session": s.id, "token": s.token}, os.pidfd_open(p.pid))
        assert got["watch"]["state"] == "on", got
        assert p.stdout.readline() == "done\n"
        answer = fresh.signer.order(fresh, "session.abort", session=s.id, reason="enough")
        assert "error" not in answer, answer
        end = fresh.end_of(s.id)
        until("everybody has ended", lambda: not left(mark), 10)
    assert (end["why"], end["peak"], end["killed"]) == ("abort", 101, 101), end
    assert p.wait(20 * SLOW) == -signal.SIGKILL


def test_a_recycled_number_is_not_killed(fresh):
    """E13: a process of the tree ends, a stranger gets its number, the tree is ended: the stranger lives."""
    mark = new_mark()
    before = len(fresh.watch_rows(action="attach"))
    p = fresh.run("/bin/sh", "-c", f"sleep {LIFE} & echo $!; read x; kill $!; wait; echo gone; exec sleep {LIFE}", "sh", mark, stdin=subprocess.PIPE)
    pid = int(p.stdout.readline())
    session = fresh.watch_rows(action="attach")[before]["session"]
    p.stdin.write("\n")
    p.stdin.flush()
    assert p.stdout.readline() == "gone\n"
    stranger = fresh.bound.popen(program("reuse"), pid, 60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert stranger.stdout.readline() == "ready\n", stranger.stderr.read()
    answer = fresh.signer.order(fresh, "session.abort", session=session, reason="enough")
    assert "error" not in answer, answer
    fresh.end_of(session)
    until("the tree has ended", lambda: not left(mark), 10)
    assert p.wait(20 * SLOW) == 128 + signal.SIGKILL
    assert stranger.poll() is None and os.path.exists(f"/proc/{pid}"), "the stranger was killed"
    os.kill(pid, signal.SIGTERM)
    stranger.wait(10)


def test_counts_are_of_processes_not_threads(watch):
    """E05: threads, forks without exec, exec from a thread; all of it counted, and the sum of who lives back at 0."""
    done, end = watch.ended(program("tally"), program("quiet"))
    assert done.returncode == 0, done
    assert (end["forks"], end["execs"]) == (17, 11), end
    assert end["killed"] == 0 and end["lost"] == 0, end
    assert 1 < end["peak"] <= 18, end
