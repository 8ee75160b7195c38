"""Ask as fast as it goes, from many sessions at once; fill the log with nonsense; leave half-sent messages behind."""
import json
import resource
import socket
import threading
import time

from live import SLOW, Gone, Stream, until
from run import NOTHING
from sp import HELLO

POLICY = """pawl: 1
name: flood
default: deny
rules: [{id: work, allow: [work]}]
budgets: {run: {per: session, limit: 1000 USD}}
sessions: {lease: 1h, calls: 1000000}
limits: {decide: 100/s, burst: 50}
...
"""
SHARED = "the rate of its own agent: other sessions of that agent are throttled too"
KEPT_OUT = "others are kept out while it holds every stream"
RESTART = "a restart of the judging process"
STATED = {
    "decisions above the rate": NOTHING,
    "a bucket for each session": NOTHING,
    "others of the same agent": SHARED,
    "an entry for each throttled call": NOTHING,
    "an entry for each malformed message": NOTHING,
    "every stream pawld has": NOTHING,
    "an end of the daemon": NOTHING,
    "one frame byte that does not exist": NOTHING,
}
THREADS, SECONDS = 4, 3


def all_descriptors(d) -> str:
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while len(held) < 1100:
            held.append(Stream(d.agent, 2))
    except OSError:
        pass
    try:
        d.door(timeout=2).ask({"v": 1, "op": "hello"})
        out = NOTHING
    except OSError:
        out = KEPT_OUT
    assert len(held) > 900, len(held)
    for s in held:
        s.close()
    until("others get through again", d.answers, 15)
    return out


def wrong_frame(d, s) -> str:
    s.stream = d.door()  # the old one was idle longest and made room
    before, rest = s.state()["remaining"], d.rest_pid
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bad:
        bad.connect(d.agent)
        bad.sendall(HELLO + b"\x00" + b"\xff" * 64)
        time.sleep(0.5 * SLOW)
    until("pawld answers again", d.answers, 15)
    s.stream = d.door()
    if s.state()["remaining"] != before:
        return f"{before} became {s.state()['remaining']}"
    return NOTHING if d.status()["pid"]["rest"] == rest else RESTART


def attack(d) -> dict:
    answered, throttled, untold = [], [], []
    sessions = [d.session() for _ in range(THREADS)]
    bystander = d.session()
    rest, seq = d.rest_pid, d.seq()
    end = time.monotonic() + SECONDS

    def work(s):
        while time.monotonic() < end:
            r = s.decide("work", {"n": s.calls})
            if "verdict" in r:
                answered.append(r)
            elif r["error"]["code"] == "throttled":
                throttled.append(r)
                if not r.get("error", {}).get("retry_after") and not r.get("retry_after"):
                    untold.append(r)

    started = time.monotonic()
    threads = [threading.Thread(target=work, args=(s,)) for s in sessions]
    for t in threads:
        t.start()
    time.sleep(SECONDS / 2)
    by = [bystander.decide("work", {"n": n}) for n in range(20)]
    for t in threads:
        t.join()
    took = time.monotonic() - started
    answered += [r for r in by if "verdict" in r]
    room = 50 + 100 * took + 5
    time.sleep(1.3)  # the last summary
    wrote = d.seq() - seq
    assert throttled and not untold, untold[:1]
    gained = {
        "decisions above the rate": NOTHING if len(answered) <= room else f"{len(answered)} answers, {room:.0f} were due",
        "a bucket for each session": NOTHING if len(answered) <= room else "one bucket a session",
        "others of the same agent": SHARED if any("error" in r for r in by) else NOTHING,
        "an entry for each throttled call": NOTHING if wrote <= len(answered) + took + 4 else f"{wrote} entries for {len(answered)} answers",
    }
    seq = d.seq()
    with d.door() as s:
        for n in range(3000):
            assert "error" in json.loads(s.ask_bytes(b'{"v":1,"op":"decide","tool":' + str(n).encode() + b"}"))
    gained["an entry for each malformed message"] = NOTHING if d.seq() == seq else f"{d.seq() - seq} entries"
    for n in range(200):
        try:
            s = d.door(timeout=2)
            s.sock.sendall(b"\x01\x00\x00\x00\x00\x00\x0f\xff\xff\x80")
        except (Gone, OSError):
            break
    gained["every stream pawld has"] = all_descriptors(d)
    gained["an end of the daemon"] = NOTHING if d.answers() and d.status()["pid"]["rest"] == rest else "the rest had to start again"
    gained["one frame byte that does not exist"] = wrong_frame(d, sessions[0])
    said = sum(e["body"]["count"] for e in d.entries() if e["body"]["kind"] == "throttle")
    assert said == len(throttled) + sum("error" in r for r in by), f"the summary counts {said}, {len(throttled)} were throttled"
    return gained
