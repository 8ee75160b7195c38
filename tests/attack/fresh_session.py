"""B20: when the budget is spent, open a new session, under the same labels or others, or ask for a reset."""
from live import Session, nano
from run import NOTHING
from sp import Refused

POLICY = """pawl: 1
name: fresh
default: deny
rules: [{id: work, allow: [work]}]
budgets:
  run: {per: session, limit: 1 USD}
  mine: {per: agent, limit: 2 USD}
sessions: {open: 4, lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
STATED = {
    "ten sessions, each to its limit": NOTHING,
    "more sessions than the cap": NOTHING,
    "another agent's name": NOTHING,
    "the verb reset": NOTHING,
    "close, and open again": NOTHING,
    "ask for looser limits of one's own": NOTHING,
}


def spend(s: Session) -> int:
    """Nano-units that calls were allowed for, in steps of 0.25."""
    got = 0
    for n in range(12):
        if s.decide("work", {"n": n}, money="0.25")["verdict"] == "allow":
            got += 250_000_000
    return got


def attack(d) -> dict:
    gained, total, opened = {}, 0, []
    refused = set()
    for n in range(10):
        try:
            s = Session(d.door(), labels={"run": str(n % 2)})
        except Refused as e:
            refused.add(e.args[0]["error"]["code"])
            continue
        opened.append(s)
        total += spend(s)
    gained["ten sessions, each to its limit"] = NOTHING if total == 2 * 10**9 else f"{total} nano-units of 2000000000"
    gained["more sessions than the cap"] = NOTHING if len(opened) == 4 and refused == {"session_limit"} else f"{len(opened)} sessions, {refused}"
    try:
        Session(d.door(), agent="somebody")
        gained["another agent's name"] = "a session as somebody"
    except Refused as e:
        gained["another agent's name"] = NOTHING if e.args[0]["error"]["code"] == "unauthenticated" else str(e)
    reset = [d.door().ask({"v": 1, "op": op, "session": opened[0].id, "token": opened[0].token})
             for op in ("reset", "session.reset", "session.grant", "grant", "budget.reset", "policy.reload")]
    gained["the verb reset"] = NOTHING if all(r.get("error", {}).get("code") == "malformed" for r in reset) else str(reset)
    for s in opened:
        s.close()
    again = Session(d.door())
    more = spend(again)
    gained["close, and open again"] = NOTHING if more == 0 else f"{more} nano-units"
    again.close()
    try:
        wide = Session(d.door(), limits={"money": "1000000"})
        more = spend(wide)
    except Refused:
        more = 0
    gained["ask for looser limits of one's own"] = NOTHING if more == 0 else f"{more} nano-units"
    left = nano(d.session().decide("work", {"n": 99}, money="0.25")["remaining"]["mine"]["remaining"])
    assert left == 0, left
    return gained
