"""The agent runs under pawld's own uid, as on a laptop: read keys, open the operator's door, kill the daemon."""
import json
import os
import signal

from live import until
from run import NOTHING

POLICY = None
SAID = "the key that signs the log; P4, P6 and P7 are `partial` and pawld says so in the start entry, in hello and in status"
LOOK = "a view of all sessions; no operation that changes anything is there without an operator's key"
STATED = {
    "read the signing key": SAID,
    "open the operator's door": LOOK,
    "find another session's token": NOTHING,
    "kill pawld and go on": NOTHING,
    "answer in pawld's place": "an answer of its own making for clients that do not check the log entry; P4 is `partial`",
}


def attack(d) -> dict:
    gained = {}
    victim = d.session()
    victim.decide("work", {"n": 1}, money="1")

    key = (d.dir / "keys" / "entry.key").read_text().startswith("PRIVATE+KEY+")
    where = [d.door().ask({"v": 1, "op": "hello"})["promises"], d.status()["promises"]]
    start = [e["body"] for e in d.entries() if e["body"]["kind"] == "start"][-1]
    said = all(p in w and w[p]["state"] == "partial" and w[p]["why"] for p in ("P4", "P6", "P7") for w in where)
    in_log = all(p in json.dumps(start) for p in ("P4", "P6", "P7"))
    gained["read the signing key"] = SAID if key and said and in_log else f"key {key}, hello and status {where}, start {start}"

    changing = ["review.resolve", "session.abort", "session.grant", "session.undeny", "policy.reload", "breaker.reset", "key.add", "decide", "session.open"]
    done = [op for op in changing if "error" not in d.ask_operator(op, session=victim.id)]
    seen = victim.id in json.dumps(d.ask_operator("session.list"))
    gained["open the operator's door"] = LOOK if seen and not done else f"seen {seen}, done {done}"

    found = []
    for top, _, files in os.walk(d.dir):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path) and victim.token.encode() in open(path, "rb").read():
                found.append(path)
            if os.path.isfile(path) and bytes.fromhex(victim.token) in open(path, "rb").read():
                found.append(path)
    gained["find another session's token"] = NOTHING if not found else f"it is in {found}"

    os.kill(d.watcher_pid, signal.SIGKILL)
    d.process.wait()
    rest = d.rest_pid
    until("the rest ends with its watcher", lambda: not os.path.exists(f"/proc/{rest}") or not d.answers(), 10)
    d.process = None
    try:
        reply = d.door(timeout=2).ask({"v": 1, "op": "hello"})
        gained["kill pawld and go on"] = f"an answer: {reply}"
    except OSError:
        gained["kill pawld and go on"] = NOTHING
    gained["answer in pawld's place"] = STATED["answer in pawld's place"] if os.access(os.path.dirname(d.agent), os.W_OK) else NOTHING
    d.start()
    return gained
