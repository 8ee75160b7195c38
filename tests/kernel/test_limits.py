"""What goes over a limit is stopped by it, and the entry tells what was measured and what the limit was (E01). Peaks and times are printed; only bounds
that do not depend on how busy the machine is are asserted."""
import json
import struct
import subprocess
import time

import pytest

from live import SLOW, until
from watched import SHORT, Watched, folder_for_all, left, policy, program, skip_unless_root, tell

MOST, SECONDS = 1500, 20  # of a bomb that nobody stops


@pytest.fixture
def watched():
    skip_unless_root()
    made = []

    def make(**watch):
        w = Watched(policy(**watch))
        made.append(w)
        return w.start()

    yield make
    for w in made:
        w.__exit__(None, None, None)


@pytest.fixture
def report():
    folder = folder_for_all()
    path = folder / "report"
    path.write_bytes(bytes(24))
    path.chmod(0o666)
    yield path
    path.unlink()
    folder.rmdir()


# Peaks count what was made, and each of those alive at the limit may be inside one fork then: twice the limit is the hard bound. What is over the
# limit dies before it runs, so no more than limit - 1 children of a bomb ever do.
def numbers(report):
    return dict(zip(("tried", "forked", "ran"), struct.unpack("<3Q", report.read_bytes())))


def is_stopped(w, cmd, why, seconds=60, **how):
    """Runs it; the tree was ended by that limit, and says so everywhere. The end entry and the seconds."""
    began = time.monotonic()
    done, end = w.ended(*cmd, seconds=seconds, **how)
    took = time.monotonic() - began
    assert end["why"] == why, f"{end}\n{done}"
    assert end["measured"] > end["limit"] > 0 or (why in ("cpu", "wall", "memory") and end["measured"] >= end["limit"]), end
    breach = w.watch_rows(action="breach", session=end["session"])
    assert [(b["why"], b["limit"]) for b in breach] == [(why, end["limit"])], breach
    assert done.returncode == 128 + 9, done
    assert why in done.stderr, done
    return end, took


@pytest.mark.parametrize("user", [None, "nobody"], ids=["root", "nobody"])
@pytest.mark.parametrize("kind", ["doubling", "shell", "wide"])
def test_a_bomb_is_bounded(watched, report, kind, user):
    limit = 50
    w = watched(processes=limit)
    end, took = is_stopped(w, [program("bomb"), kind, MOST, SECONDS, report], "processes", user=user)
    n = numbers(report)
    tell(f"bomb {kind}, limit {limit}, {user or 'root'}", peak=end["peak"], ran=n["ran"], seconds=took)
    assert end["limit"] == limit and limit < end["peak"] <= 2 * limit, end
    assert end["killed"] >= limit, "those that the kernel ended at once count"
    assert n["ran"] < limit, n
    assert n["tried"] < MOST, "it ended by itself"
    assert not w.bound.pids() - {w.process.pid, w.rest_pid}


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_the_bomb_of_the_books(watched, shell):
    w = watched(processes=40)
    end, took = is_stopped(w, [f"/bin/{shell}", "-c", "b() { b | b & }; b; sleep 20"], "processes")
    tell(f"{shell} bomb, limit 40", peak=end["peak"], seconds=took)
    assert end["peak"] <= 2 * 40, end


def test_a_chain_is_stopped_by_its_rate(watched, report):
    """Never more than a few alive: the number of processes does not see it."""
    rate = 200
    w = watched(processes=50, fork_rate=f"{rate}/s")
    end, took = is_stopped(w, [program("bomb"), "chain", 100000, SECONDS, report], "fork_rate")
    n = numbers(report)
    tell(f"chain, fork_rate {rate}/s", peak=end["peak"], forks=end["forks"], seconds=took)
    assert end["peak"] <= 50 and n["tried"] < 100000, (end, n)


def test_a_thousand_short_programs(watched, report):
    """E01: stopped near the limit, the host stays usable, and the log has a summary and not a thousand entries."""
    rate = 100
    w = watched(exec="log", exec_rate=f"{rate}/s")
    end, took = is_stopped(w, [program("bomb"), "execs", 1000, SECONDS, report, program("quiet")], "exec_rate")
    tell(f"1,000 short programs, exec_rate {rate}/s", execs=end["execs"], seconds=took)
    rows = w.watch_rows(session=end["session"])
    assert len(rows) <= 4 + took, rows
    starts = sum(r["total"] for r in rows if r["action"] == "execs")
    assert starts <= end["execs"] and numbers(report)["tried"] < 1000, (starts, end)


def test_a_program_that_starts_itself_again(watched):
    w = watched(exec="log", exec_rate="50/s")
    end, took = is_stopped(w, [program("bomb"), "in-place", 100000, SECONDS], "exec_rate")
    tell("exec in place, exec_rate 50/s", execs=end["execs"], seconds=took)


def test_under_the_rate_nothing_is_stopped(watched):
    """As many starts, slower."""
    w = watched(exec="log", exec_rate="200/s", fork_rate="200/s", processes=10)
    count = 100 if SHORT else 400
    done, end = w.ended(program("churn"), count, 60, program("quiet"), seconds=60)
    assert done.returncode == 0 and json.loads(done.stdout)["good"] == count, done
    assert end["why"] == "ended" and (end["forks"], end["execs"], end["killed"], end["lost"]) == (count, count + 1, 0, 0), end
    listed = [p for r in w.watch_rows(action="execs", session=end["session"]) for p in r.get("programs", [])]
    assert sum(p["count"] for p in listed if p["path"].endswith("quiet")) == count, listed


@pytest.mark.parametrize("what", [("cpu", 1), ("cpu", 4), ("cpu-children", 2)], ids=["one thread", "four threads", "children"])
def test_cpu_time(watched, what):
    limit = 1.0
    w = watched(cpu="1s")
    end, took = is_stopped(w, [program("hog"), *what, 60], "cpu")
    used = end["measured"] / 1e9
    tell(f"cpu limit 1 s, {what[0]} {what[1]}", measured_s=used, over_ms=(used - limit) * 1000, seconds=took)
    assert end["limit"] == 10**9 and took < 60 * SLOW, (end, took)


def test_cpu_time_of_a_tree_that_waits_is_not_used_up(watched):
    w = watched(cpu="1s")
    done, end = w.ended(program("hog"), "sleep", 2)
    assert done.returncode == 0 and end["why"] == "ended", (done, end)


@pytest.mark.parametrize("how", [("memory", 1024, 60), ("memory-children", 8, 60, 100)], ids=["one", "eight children"])
def test_memory(watched, how):
    limit = 200 << 20
    w = watched(memory="200MiB")
    end, took = is_stopped(w, [program("hog"), *how], "memory")
    tell(f"memory limit 200 MiB, {how[0]}", measured_mib=end["measured"] / 2**20, peak_mib=end["memory_peak"] / 2**20, seconds=took)
    assert end["limit"] == limit and took < 60 * SLOW, (end, took)
    assert end["memory_peak"] < 600 << 20, end


@pytest.mark.parametrize("user", [None, "nobody"], ids=["root", "nobody"])
def test_wall_clock(watched, user):
    """It sleeps: nobody who waits for it to run would reach it."""
    w = watched(wall="500ms")
    end, took = is_stopped(w, [program("hog"), "sleep", 60], "wall", user=user)
    tell("wall limit 500 ms", measured_ms=end["measured"] / 1e6, seconds=took)
    assert end["limit"] == 500_000_000 and took < 60 * SLOW, (end, took)


def test_limits_leave_others_alone(watched, report):
    """One tree goes over, the other of the same policy goes on."""
    w = watched(processes=30)
    calm = w.run(program("hog"), "sleep", 60)
    until("it is attached", lambda: w.watch_rows(action="attach"), 20)
    end, _ = is_stopped(w, [program("bomb"), "wide", MOST, SECONDS, report], "processes")
    assert end["peak"] <= 2 * 30
    assert calm.poll() is None
    sessions = [r["session"] for r in w.watch_rows(action="attach")]
    assert len(sessions) == 2 and not w.watch_rows(action="end", session=next(s for s in sessions if s != end["session"]))
    calm.terminate()
    assert calm.wait(20 * SLOW) == 128 + 15
