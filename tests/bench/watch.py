"""What the watch costs, for bench.py: differences and ratios within one run, every other round in reverse order. Needs root and the kernel's programs."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "support")]
import bpfcount  # noqa: E402
import policy as bench_policy  # noqa: E402


def why_not() -> str | None:
    return None if os.geteuid() == 0 else "needs root"


class Up:
    """A pawld that watches, with one quiet tree under it, so that the kernel's programs have something to look for."""

    def __init__(self, text: str):
        import watched
        from live import until
        self.w = watched.Watched(text, most=8000).start()
        self.calm = self.w.run("/bin/sleep", "600")
        until("a tree is attached", lambda: self.w.watch_rows(action="attach"), 20)

    def close(self) -> None:
        self.calm.kill()
        self.w.__exit__(None, None, None)


def text_of(**keys) -> str:
    import watched
    return watched.policy(exec="log", deny_exec=["/usr/bin/nc"], processes=4000, **keys)


def pairs(rows: list[dict], a: str, b: str) -> list[tuple[float, float]]:
    return [(r[a], r[b]) for r in rows]


def starts(build: pathlib.Path, quick: bool) -> dict:
    """fork + exec + exit of a program of a few hundred bytes, in microseconds: with no pawld, beside a watched tree, and in one. A number is the best of
    ten short runs in a row: what a neighbour takes is not the watch's."""
    churn, quiet = build / "tests/kernel/churn", build / "tests/kernel/quiet"
    count, rounds = (200, 2) if quick else (1000, 10)
    often = f"for i in 1 2 3 4 5 6 7 8 9 10; do {churn} {count} 0 {quiet} || exit; done"

    def best(lines: str) -> float:
        return min(json.loads(line)["each_us"] for line in lines.splitlines())

    def bare() -> float:
        return best(subprocess.run(["/bin/sh", "-c", often], capture_output=True, text=True, check=True).stdout)

    def run(w, *more: str) -> float:
        done = w.done("/bin/sh", "-c", often, more=more)
        if done.returncode != 0:
            raise SystemExit(f"bench: churn under watch: {done}")
        return best(done.stdout)

    def shut_in() -> float:
        """What `pawl run` costs where nothing is watched: a Landlock domain, a filter, a mount namespace."""
        import watched
        with watched.Watched(watched.policy(wall="10m")) as w:
            w.start("--no-watch")
            return run(w, "--allow-degraded")

    def with_pawld(row: dict, first: str) -> None:
        up = Up(text_of())
        try:
            for what in (first, "tagged" if first == "untagged" else "untagged"):
                row[what] = bare() if what == "untagged" else run(up.w)
        finally:
            up.close()

    rows = []
    for r in range(rounds):
        row: dict = {}
        if r % 2 == 0:
            row["bare"], row["shut_in"] = bare(), shut_in()
            with_pawld(row, "untagged")
        else:
            with_pawld(row, "tagged")
            row["shut_in"], row["bare"] = shut_in(), bare()
        rows.append(row)
    got = {"rounds": rows, "bare_us": statistics.median(r["bare"] for r in rows)}
    got["tagged_more_than_shut_in_us"] = statistics.median(b - a for a, b in pairs(rows, "shut_in", "tagged"))
    for which in ("shut_in", "untagged", "tagged"):
        got[f"{which}_more_us"] = statistics.median(b - a for a, b in pairs(rows, "bare", which))
    return got


def programs(build: pathlib.Path, quick: bool) -> dict:
    """What the kernel's programs alone cost a start: no door, no cgroup, no Landlock around it, each start timed by itself."""
    rounds, count = ("4", "500") if quick else ("40", "1000")
    done = subprocess.run([build / "tests/bench/starts", rounds, count, build / "tests/kernel/quiet"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def counted(build: pathlib.Path, quick: bool) -> dict:
    """Nanoseconds of the fork, exec and exit programs together, a start, by the kernel's own count: beside a watched tree, and in one."""
    words = ["/bin/sh", "-c", f"{build / 'tests/kernel/churn'} {1000 if quick else 20000} 0 {build / 'tests/kernel/quiet'}"]
    up, got = Up(text_of()), {}
    try:
        for what, go in (("beside_ns", lambda: subprocess.run(words, capture_output=True, check=True)), ("tree_ns", lambda: up.w.done(*words))):
            with bpfcount.counting() as ns:
                go()
            got[what] = sum(ns[name] for name in ("on_fork", "on_exec", "on_exit"))
    finally:
        up.close()
    return got


def make_words(times: int) -> tuple[str, ...]:
    return "/bin/sh", "-c", f"for i in $(seq {times}); do make -s clean && make -s -j2 || exit; done"


def make_bare(where: pathlib.Path, times: int) -> float:
    t = time.monotonic()
    subprocess.run(make_words(times), cwd=where, check=True, capture_output=True)
    return time.monotonic() - t


def make_watched(where: pathlib.Path, times: int) -> float:
    up = Up(text_of(cpu="20m", wall="20m", fork_rate="10000/s", exec_rate="10000/s"))
    try:
        t = time.monotonic()
        done = up.w.done(*make_words(times), cwd=where, seconds=600)
        took = time.monotonic() - t
    finally:
        up.close()
    if done.returncode != 0:
        raise SystemExit(f"bench: make under watch: {done}")
    return took


def makes(quick: bool) -> dict:
    """`make clean` and `make -j2` of a small Debian source package, six times in a row, seconds: bare, and under one `pawl run`, whose own start and
    end are in it."""
    import foreign
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-bench-"))
    folder.chmod(0o755)
    try:
        where = foreign.unpack(folder)
        subprocess.run(["./configure", "--quiet"], cwd=where, env={**os.environ, "FORCE_UNSAFE_CONFIGURE": "1"}, check=True, capture_output=True)
        rows = []
        for r in range(1 if quick else 7):
            row = {}
            for what, go in (("bare", make_bare), ("watched", make_watched))[:: 1 if r % 2 == 0 else -1]:
                row[what] = go(where, 1 if quick else 6)
            rows.append(row)
        return {"rounds": rows, "bare_s": statistics.median(r["bare"] for r in rows), "ratio": statistics.median(b / a for a, b in pairs(rows, "bare", "watched"))}
    except RuntimeError as e:
        return {"skipped": str(e)}
    finally:
        shutil.rmtree(folder)


def ring(build: pathlib.Path, quick: bool) -> dict:
    """As many program starts a second as two processes can make that do nothing else, each an event, into the ring as it is by default."""
    spin = build / "tests/kernel/spin"
    count = 10000 if quick else 150000
    up = Up(text_of())
    try:
        t = time.monotonic()
        done, end = up.w.ended("/bin/sh", "-c", f"{spin} {count} & {spin} {count} & wait", seconds=120)
        took = time.monotonic() - t
        if done.returncode != 0 or end["execs"] < 2 * count:
            raise SystemExit(f"bench: spin under watch: {done}, {end}")
        return {"starts": end["execs"], "per_second": end["execs"] / took, "lost": end["lost"]}
    finally:
        up.close()


def decisions(load, quick: bool, folder: pathlib.Path) -> dict:
    """Answers a second of a pawld that watches a tree, over those of one whose policy has no watch section. load: (socket, clients, seconds)."""
    import live
    rounds, seconds = (1, 0.5) if quick else (5, 2.0)
    text = bench_policy.policy(50)
    plain = live.Live(text, folder / "plain").start()
    up = Up(re.sub(r"(?m)^\.\.\.$", "watch: {exec: log, deny_exec: [/usr/bin/nc], processes: 4000}\n...", text))
    try:
        table = {}
        for clients in (1, 64):
            rows = []
            for r in range(rounds):
                row = {}
                for what, d in (("plain", plain), ("watch", up.w))[:: 1 if r % 2 == 0 else -1]:
                    row[what] = load(d.agent, clients, seconds)["per_second"]
                rows.append(row)
            table[clients] = {"rounds": rows, "ratio": statistics.median(b / a for a, b in pairs(rows, "plain", "watch"))}
        return table
    finally:
        up.close()
        plain.stop(60)
        shutil.rmtree(plain.dir)


def everything(build: pathlib.Path, folder: pathlib.Path, quick: bool, load) -> dict:
    why = why_not()
    if why:
        return {"skipped": why}
    return {"counted": counted(build, quick), "programs": programs(build, quick), "starts": starts(build, quick), "make": makes(quick), "ring": ring(build, quick), "decisions": decisions(load, quick, folder)}


def targets(w: dict) -> list[tuple[str, str, str, bool]]:
    if "skipped" in w:
        return []
    c, p, s, m, r = w["counted"], w["programs"], w["starts"], w["make"], w["ring"]
    beside, tree = c["beside_ns"] / 1000, c["tree_ns"] / 1000
    rows = [("the kernel's programs at fork + exec + exit beside a watched tree", "<= 1 us", f"{beside:.2f} us", beside <= 1),
            ("the same in a watched tree", "<= 5 us", f"{tree:.2f} us", tree <= 5),
            ("by the wall clock, beside and in one", "stated", f"{p['beside_more_ns'] / 1000:+.1f} and {p['tree_more_ns'] / 1000:+.1f} us of {p['bare_ns'] / 1000:.0f}", True),
            ("the same under `pawl run`: the tree, its cgroups, Landlock, the filter", "stated", f"{s['tagged_more_us']:+.1f} us of {s['bare_us']:.0f}, of which "
             f"{s['shut_in_more_us']:+.1f} us are `pawl run` without a watch", True),
            (f"events lost of {r['starts']} starts at {r['per_second']:.0f}/s", "0 at 30000/s", f"{r['lost']}", r["lost"] == 0 and r["per_second"] >= 30000)]
    if "ratio" in m:
        rows.append(("make -j2 of a Debian package under watch", "<= 1.03 x bare", f"{m['ratio']:.3f} x of {m['bare_s']:.1f} s", m["ratio"] <= 1.03))
    for clients, d in w["decisions"].items():
        rows.append((f"answers/s with the watch on, {clients} clients", "unchanged: >= 0.97 x", f"{d['ratio']:.3f} x", d["ratio"] >= 0.97))
    return rows


def line(w: dict) -> str:
    return f"| the watch | | not measured: {w['skipped']} | |"
