"""P10: limits hold while the rest is down, while all of pawld is down, and after it has come back (E02: also when nobody reads the ring)."""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from live import PAWLD, SLOW, alive, children, until
from watched import SHORT, Watched, folder_for_all, left, new_mark, policy, process_lives, program, skip_unless_root, tell

LIFE = str(int(120 * SLOW))


class Under(Watched):
    """A folder with a denied program beside the daemon, and a shell under watch that does what it is told, a line at a time."""

    def __init__(self, options=(), **watch):
        self.folder = folder_for_all()
        for name in ("victim", "quiet"):
            shutil.copy(program(name), self.folder / name)
        super().__init__(policy(exec="log", deny_exec=[self.folder / "victim"], **watch), options=options)

    def shell(self, **how):
        p = self.run("/bin/bash", "-c", "exec 3>/dev/null; while read -r line; do eval \"$line\"; done", stdin=subprocess.PIPE, bufsize=1, **how)
        p.session = self.session_of(p)
        return p

    def __exit__(self, *what):
        try:
            super().__exit__(*what)
        finally:
            shutil.rmtree(self.folder)


def tell_shell(p, line):
    p.stdin.write(line + "\n")
    p.stdin.flush()


def ask(p, line):
    tell_shell(p, line)
    return p.stdout.readline().strip()


@pytest.fixture
def under():
    skip_unless_root()
    made = []

    def make(**how):
        w = Under(**how)
        made.append(w)
        return w.start()

    yield make
    for w in made:
        w.__exit__(None, None, None)


def rest_dies(w):
    old = w.rest_pid
    os.kill(old, signal.SIGKILL)
    until("the rest is gone", lambda: not alive(old), 10)

    def back():
        try:
            return w.status()["pid"]["rest"] not in (0, old)
        except (OSError, KeyError):
            return False

    until("another rest answers", back, 30)
    w.rest_pid = w.status()["pid"]["rest"]


def denied_dies(w, p):
    """137: killed before its first instruction, which would have been a byte in fd 3's file, and status 7."""
    return ask(p, f"{w.folder}/victim 3>{w.folder}/byte; echo $? $(stat -c %s {w.folder}/byte)") == "137 0"


def churn(w, seconds):
    """A tree under load beside the one that is looked at."""
    return w.run(program("churn"), int(200 * seconds), 200, w.folder / "quiet")


def test_the_rest_dies_under_load(under):
    w = under(processes=60)
    load, p = churn(w, 30 * SLOW), w.shell()
    assert denied_dies(w, p)
    rest_dies(w)
    assert denied_dies(w, p), "after"
    assert p.poll() is None and load.poll() is None
    tell_shell(p, "exit 3")
    assert p.wait(20 * SLOW) == 3
    assert w.end_of(p.session)["why"] == "ended"
    assert w.kills(p.session, "deny_exec") == 2
    assert w.verify().returncode == 10
    load.kill()


@pytest.mark.parametrize("how", ["reload", "restart"])
def test_what_is_taken_off_the_list_runs(under, how):
    """And what stays on it does not, nor what is new on it, in a tree that runs."""
    w = under(processes=40)
    p = w.shell()
    tell_shell(p, "exec 2>/dev/null")  # a line of the shell's for each that is killed would fill the pipe
    assert denied_dies(w, p)

    def lists(*names):
        text = policy(exec="log", processes=40, **({"deny_exec": [w.folder / n for n in names]} if names else {}))
        if how == "reload":
            w.write_policy(text)
            w.process.send_signal(signal.SIGHUP)
        else:
            w.stop()
            w.write_policy(text)
            w.start()

    shutil.copy(w.folder / "victim", w.folder / "other")
    lists("victim", "other")
    until("what is new on it is denied", lambda: ask(p, f"{w.folder}/other 3>/dev/null; echo $?") == "137", 10)
    assert denied_dies(w, p)
    lists("other")
    until("what is not on it any more runs", lambda: ask(p, f"{w.folder}/victim 3>/dev/null; echo $?") == "7", 10)
    assert ask(p, f"{w.folder}/other 3>/dev/null; echo $?") == "137"
    lists()
    until("nothing is denied", lambda: ask(p, f"{w.folder}/other 3>/dev/null; echo $?") == "7", 10)
    tell_shell(p, "exit 3")
    assert p.wait(20 * SLOW) == 3


def test_while_the_rest_is_down(under):
    """Stopped, not dead, so that the time in between is long enough to look."""
    w = under(processes=40)
    p = w.shell()
    os.kill(w.rest_pid, signal.SIGSTOP)
    try:
        assert denied_dies(w, p)
        tell_shell(p, f"{program('bomb')} wide 1000 20 {w.folder}/report; echo bomb $?")
        first = w.watch_rows(action="attach", session=p.session)[0]["pid"]
        until("the bomb is over", lambda: not process_lives(first), 30)
    finally:
        os.kill(w.rest_pid, signal.SIGCONT)
    end = w.end_of(p.session, 30)
    assert end["why"] == "processes" and end["peak"] <= 2 * 40, end


def test_all_of_pawld_dies_and_limits_hold_until_it_is_back(under):
    w = under(processes=40)
    load, p, q = churn(w, 60 * SLOW), w.shell(), w.shell()
    assert denied_dies(w, p)
    w.kill()
    assert denied_dies(w, p), "a denied program while pawld is down"
    tell_shell(q, f"{program('bomb')} doubling 1000 15 {w.folder}/report")
    until("the bomb's counters are there", (w.folder / "report").exists, 10)
    time.sleep(1)
    tried, _, ran = struct.unpack("<3Q", (w.folder / "report").read_bytes())
    tell("bomb while pawld is down, limit 40", tried=tried, ran=ran)
    assert ran < 40, (tried, ran)
    w.start()
    end = w.end_of(q.session, 30)
    assert end["why"] == "processes" and end["peak"] <= 2 * 40, end
    assert p.poll() is None, p.stderr.read()
    assert denied_dies(w, p), "after it is back"
    time.sleep(6)  # the launcher has rejoined: a tree without its launcher would be ended after 5 s
    assert p.poll() is None and not w.watch_rows(action="end", session=p.session)
    tell_shell(p, "exit 4")
    assert p.wait(20 * SLOW) == 4
    assert w.end_of(p.session)["why"] == "ended"
    assert w.verify().returncode == 10
    load.kill()


def test_what_happened_in_a_tree_that_is_over_is_told(under):
    """It starts a denied program and ends, all of it while pawld is down: the next one tells of the kill, then of the end."""
    w = under(processes=40)
    p = w.shell()
    w.kill()
    assert denied_dies(w, p)
    tell_shell(p, "exit 3")
    until("nobody of it lives", lambda: p.poll() is not None or not children(p.pid), 10)
    w.start()
    w.end_of(p.session, 30)
    actions = [r["action"] for r in w.watch_rows(session=p.session) if r["action"] in ("kill", "end")]
    assert actions == ["kill", "end"]


def test_the_wall_clock_runs_while_pawld_is_down(under):
    w = under(wall="3s")
    p = w.run("/bin/sh", "-c", "while :; do :; done")
    until("it is attached", lambda: w.watch_rows(action="attach"), 20)
    row = w.last_attach()
    w.kill()
    began = time.monotonic()
    until("the tree is ended with nobody there", lambda: not process_lives(row["pid"]), 20)
    tell("wall limit 3 s, pawld down", seconds_after_its_death=time.monotonic() - began)
    w.start()
    end = w.end_of(row["session"], 20)
    assert end["why"] == "wall" and end["measured"] >= end["limit"] == 3 * 10**9, end
    assert p.wait(30 * SLOW) == 128 + 9


def test_a_sleeper_over_its_time_is_ended_when_pawld_is_back(under):
    """Nothing in the kernel reaches who does not run; docs/watch.md says so."""
    w = under(wall="2s")
    p = w.run(program("hog"), "sleep", LIFE)
    until("it is attached", lambda: w.watch_rows(action="attach"), 20)
    session = w.last_attach()["session"]
    w.kill()
    time.sleep(3)
    w.start()
    assert w.end_of(session, 20)["why"] == "wall"
    assert p.wait(20 * SLOW) == 128 + 9


def test_killed_again_and_again(under):
    """Watcher and rest by turns, while trees come and go: in the end the log is whole and nobody is left."""
    w = under(processes=60, exec_rate="5000/s")
    rounds = 2 if SHORT else 6
    for i in range(rounds):
        p = w.shell()
        if i % 2:
            rest_dies(w)
        else:
            w.kill()
            w.start()
        assert denied_dies(w, p), f"round {i}"
        tell_shell(p, "exit 0")
        assert p.wait(30 * SLOW) == 0, p.stderr.read()
        assert w.end_of(p.session, 20)["why"] == "ended"
    w.stop(20)
    assert w.verify().returncode == 10


def test_ring_overflow_is_counted_and_no_kill_is_lost(under):
    """E02: a ring of one page, thousands of starts while nobody reads it, one of them denied."""
    count = 2000 if SHORT else 20000
    w = under(options=("--watch-ring", "4096"), processes=60)
    p = w.shell()
    os.kill(w.watcher_pid, signal.SIGSTOP)
    try:
        got = ask(p, f"{program('churn')} {count} 0 {w.folder}/quiet | tr -d '\\n'; echo")
        assert json.loads(got)["good"] == count, got
        assert denied_dies(w, p), "the kill waited for somebody to read"
    finally:
        os.kill(w.watcher_pid, signal.SIGCONT)
    tell_shell(p, "exit 0")
    assert p.wait(30 * SLOW) == 0
    end = w.end_of(p.session, 20)
    lost = sum(r["events"] for r in w.watch_rows(action="lost", session=p.session))
    tell("ring of 4 KiB, reader stopped", starts=count, lost=end["lost"])
    assert end["execs"] >= count and end["lost"] > 0 and lost == end["lost"], (end, lost)
    starts = sum(r["total"] for r in w.watch_rows(action="execs", session=p.session))
    assert starts + end["lost"] >= end["execs"], "starts that are neither told nor counted as lost"


def test_more_trees_than_there_is_room_for(under):
    """A full map: the one too many is refused before its command runs, the others go on."""
    w = under(options=("--watch-trees", "2"), processes=60)
    held = [w.shell(), w.shell()]
    done = w.done("/bin/sh", "-c", f"touch {w.folder}/ran")
    assert done.returncode == 125 and not (w.folder / "ran").exists(), done
    assert all(denied_dies(w, p) for p in held)
    tell_shell(held[0], "exit 0")
    assert held[0].wait(20 * SLOW) == 0
    w.end_of(held[0].session)
    until("there is room again", lambda: w.done("/bin/true").returncode == 0, 10)


def places(w):
    """Where this pawld has pins and cgroups, as its probes tell."""
    rows = w.status()["probes"]
    found = [re.search(r"/[^ ,)]+", rows[f"watch.{name}"]["why"]) for name in ("pins", "cgroup", "memory", "pids")]
    return [pathlib.Path(m[0]) for m in found if m]


def test_nothing_is_left_in_the_kernel_after_an_orderly_end(under):
    w = under(processes=20)
    p = w.shell()
    there = places(w)
    assert len(there) == 4 and all(x.exists() for x in there), there
    tell_shell(p, "exit 0")
    assert p.wait(20 * SLOW) == 0
    w.end_of(p.session)
    w.stop(20)
    assert not [x for x in there if x.exists()]
    name = there[1].name
    assert not [x for x in open("/proc/self/mountinfo") if name.split(".")[-1] in x]


def test_what_a_killed_pawld_left_is_taken_away_by_the_next(under):
    """Nobody runs under it any more, and it did not come back: pins and cgroups without an owner do not stay for ever."""
    w = under(processes=20, memory="1GiB")
    p, there = w.shell(), places(w)
    w.kill()
    p.kill()
    p.wait()
    for inside in (there[1] / f"{p.session}" / "cgroup.procs").read_text().split():  # the tree itself: nobody ends it meanwhile
        os.kill(int(inside), signal.SIGKILL)
    assert there[0].exists(), "pins outlive it"
    until("the tree is over", lambda: "populated 0" in (there[1] / "cgroup.events").read_text(), 10 * SLOW)
    under(processes=20)
    assert not [x for x in there[:2] if x.exists()], there
    assert not [x for x in pathlib.Path("/sys/fs/cgroup").glob(f"*/{there[1].name}")]
    w.start()
    assert w.done("/bin/true").returncode == 0


def test_what_still_holds_somebody_is_not_taken_away(under):
    w = under(processes=20)
    p, there = w.shell(), places(w)
    w.kill()
    under(processes=20)
    assert there[0].exists() and there[1].exists(), there
    assert denied_dies(w, p)
    w.start()
    tell_shell(p, "exit 0")
    assert p.wait(20 * SLOW) == 0
