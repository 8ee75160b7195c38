"""Say that the call costs nothing."""
from run import NOTHING

POLICY = """pawl: 1
name: zero
default: deny
tools:
  fixed: {cost: 0.5 USD}
  usual: {default_cost: 0.5 USD}
rules: [{id: all, allow: [fixed, usual, unpriced]}]
budgets:
  run: {per: session, limit: 2 USD}
  tries: {per: session, match: unpriced, limit: 5 calls}
sessions: {lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
BELIEVED = "unpriced calls for nothing, up to the budget in calls: whoever holds the token is believed about what has no price"
STATED = {
    "estimate 0, a tool with a price": NOTHING,
    "no estimate, a tool with a usual cost": NOTHING,
    "no estimate, no price": NOTHING,
    "estimate 0, a tool without a price": BELIEVED,
    "estimate 0, then the true cost is reported": NOTHING,
}


def allowed(s, tool, money, n=12):
    return sum(s.decide(tool, {"n": i, "m": money}, money=money)["verdict"] == "allow" for i in range(n))


def attack(d) -> dict:
    gained = {}
    n = allowed(d.session(), "fixed", "0")
    gained["estimate 0, a tool with a price"] = NOTHING if n == 4 else f"{n} calls of 4"
    n = allowed(d.session(), "usual", None)
    gained["no estimate, a tool with a usual cost"] = NOTHING if n == 4 else f"{n} calls of 4"
    reply = d.session().decide("unpriced", {"n": 1})
    gained["no estimate, no price"] = NOTHING if reply["verdict"] == "deny" and reply["reason"]["code"] == "budget" else str(reply)
    n = allowed(d.session(), "unpriced", "0")
    gained["estimate 0, a tool without a price"] = BELIEVED if n == 5 else f"{n} calls of 5"
    s = d.session()
    call = s.decide("unpriced", {"n": 1}, money="0")
    s.settle(call["decision"], money="3")
    later = s.decide("unpriced", {"n": 2}, money="0.01")
    run = later["remaining"]["run"]
    gained["estimate 0, then the true cost is reported"] = NOTHING if later["verdict"] == "deny" and run["over"] == "1" else str(later)
    return gained
