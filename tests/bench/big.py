"""What only shows in a long log or with many sessions: reading a log again, a start after SIGKILL, memory for a session; and how soon
a person's answer reaches the one who waits. Parts of bench.py, which prints and keeps them. Standard library only."""
from __future__ import annotations

import json
import pathlib
import re
import shutil
import statistics
import subprocess
import time

import policy

SESSIONS = 100_000  # in the library; a live pawld gets as many as its log has room for
CALLS = 10
LIVE_SESSIONS = 20_000  # 420,000 entries, some 650 MB of log
ENTRIES = 1_000_000  # some 1.3 GB of log
SPAN = 8 * 3600  # seconds of work in that log: an hour of it is still known at its end


def ran(*args, stdin: str | None = None) -> dict:
    done = subprocess.run([str(a) for a in args], input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {pathlib.Path(str(args[0])).name}: {done.stderr}")
    return json.loads(done.stdout)


def rss(pid: int) -> int:
    """KiB."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def memory(build: pathlib.Path, folder: pathlib.Path, quick: bool) -> dict:
    """Bytes for a session with its calls: two states in the library, then all of a live pawld. The first sessions pay for what is there once."""
    import live
    n, sessions = (SESSIONS // 20, 1000) if quick else (SESSIONS, LIVE_SESSIONS)
    out = {"states": ran(build / "tests/bench/agents", "state", n, CALLS, stdin=policy.policy(50))}
    with live.Live(policy.policy(50), folder / "m") as d:
        d.start()
        load = [build / "tests/bench/load", "--sessions", d.agent, 32]
        ran(*load, 100, CALLS)
        before = rss(d.rest_pid)
        out["live"] = ran(*load, sessions, CALLS)
        out["live"]["bytes_per_session"] = round((rss(d.rest_pid) - before) * 1024 / sessions, 1)
        d.kill()
    shutil.rmtree(folder / "m")
    return out


def started(d, seconds: float = 120) -> float:
    """Seconds from the start of pawld until hello is answered."""
    t = time.monotonic()
    d.start(seconds=seconds)
    if not d.answers():
        raise SystemExit("bench: pawld does not answer")
    return time.monotonic() - t


def has_snapshot(d) -> bool:
    """One that a start can use: it lies in the projection, and so does the number of the entry that vouches for it."""
    return "vouched for by entry" in d.pawl("store", "status", "--dir", str(d.dir)).stdout


def restarts(build: pathlib.Path, folder: pathlib.Path, quick: bool) -> dict:
    """A log made by agents.c, read by a pawld that has nothing but the log; then, after some load, SIGKILL and the next start."""
    import live
    entries = ENTRIES // 12 if quick else ENTRIES  # more than a snapshot waits for
    with live.Live(policy.policy(50), folder / "r") as d:
        out = {"log": ran(build / "tests/bench/agents", "log", d.dir, entries, SPAN * entries // ENTRIES)}
        out["bytes"] = sum(p.stat().st_size for p in d.segments())
        out["rebuild_s"] = round(started(d), 3)
        out["rebuild_per_second"] = round(out["log"]["entries"] / out["rebuild_s"])
        ran(build / "tests/bench/load", "--pawld", d.agent, 64, 0.5 if quick else 2, 0)
        end = time.monotonic() + (10 if quick else 120)
        while not has_snapshot(d) and time.monotonic() < end:
            time.sleep(0.5)
        out["snapshot"] = has_snapshot(d)
        out["entries"] = d.seq()
        d.kill()
        out["restart_s"] = round(started(d), 3)
        d.kill()
    shutil.rmtree(folder / "r")
    return out


def resolves(folder: pathlib.Path, quick: bool) -> dict:
    """From sending a person's answer until the caller who waits in its decide has it, beside the decide of one client; both from this process,
    with streams and messages made before."""
    import live
    import signer
    rounds, turns = (1, 20) if quick else (5, 100)
    anna = signer.Signer()
    out: dict = {"rounds": []}
    with live.Live(policy.policy(50), folder / "w") as d:
        anna.enrol(d)
        d.start()
        with live.Stream(d.operator) as door, live.Stream(d.agent) as agent:
            s = live.Session(agent)
            pages = iter(range(1 << 30))
            for _ in range(rounds):
                got = [(one_decide(s, next(pages)), one_resolve(s, door, anna, next(pages))) for _ in range(turns)]
                decide, resolve = (statistics.median(x) for x in zip(*got))
                out["rounds"].append({"decide_us": round(decide, 1), "resolve_us": round(resolve, 1), "ratio": round(resolve / decide, 3)})
        d.kill()
    shutil.rmtree(folder / "w")
    for key in ("decide_us", "resolve_us", "ratio"):
        out[key] = statistics.median(r[key] for r in out["rounds"])
    return out


def one_decide(s, page: int) -> float:
    body = json.dumps(s.decide_message("web.search", {"q": "how to bound a queue", "page": page, "lang": "en"}, "0.000002")).encode()
    t = time.perf_counter_ns()
    reply = s.stream.ask_bytes(body)
    took = (time.perf_counter_ns() - t) / 1000
    if b'"verdict":"allow"' not in reply:
        raise SystemExit(f"bench: not an allow: {reply!r}")
    return took


def one_resolve(s, door, operator, page: int) -> float:
    m = s.decide_message("web.search", {"q": "a password", "page": page, "lang": "en"}, "0.000002")
    card = s.stream.ask(m)["review"]
    order = operator.request(door.ask({"v": 1, "op": "nonce"})["nonce"], "review.resolve", review=card, action="resume", reason="seen")
    body = json.dumps(order).encode()
    waits = s.stream.send(json.dumps({**m, "wait": "30s"}).encode())
    time.sleep(0.003)  # until it is held
    t = time.perf_counter_ns()
    sent = door.send(body)
    reply = s.stream.receive(waits)
    took = (time.perf_counter_ns() - t) / 1000
    if b'"resumed"' not in reply:
        raise SystemExit(f"bench: nobody was resumed: {reply!r}")
    if b'"error"' in door.receive(sent):
        raise SystemExit("bench: a resolve was refused")
    return took
