"""B03: never report: wait until the lease is over, let the daemon die, close the session."""
import time

from live import SLOW, nano, until
from run import NOTHING

POLICY = """pawl: 1
name: silent
default: deny
tools:
  quick: {lease: 1s}
  given: {cost: 1 USD, refund: true, lease: 1s}
rules: [{id: all, allow: [quick, slow, given]}]
budgets:
  run: {per: session, limit: 10 USD}
  mine: {per: agent, limit: 1000 USD}
sessions: {lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
STATED = {
    "the lease runs out": NOTHING,
    "the lease of a tool with refund runs out": NOTHING,
    "cancelled after the lease": NOTHING,
    "the daemon is killed while it runs": NOTHING,
    "the session is closed while it runs": NOTHING,
    "the same call again after the lease": NOTHING,
}


def attack(d) -> dict:
    gained = {}

    def lost(move, before, after):
        gained[move] = NOTHING if after >= before else f"{before - after} nano-units"

    def used(s, budget="run"):
        return nano(s.state()["remaining"][budget]["used"])

    s = d.session()
    asked = s.decide_message("quick", {"n": 1}, money="2")
    first = s.stream.ask(asked)
    given = s.decide("given", {"n": 2})
    before = used(s)
    until("both leases are over", lambda: not s.state()["open"], 10)
    lost("the lease runs out", before, used(s))
    lost("the lease of a tool with refund runs out", before, used(s))
    s.settle(given["decision"], "cancelled", money="0")
    s.settle(first["decision"], "cancelled", money="0")
    lost("cancelled after the lease", before, used(s))
    again = s.stream.ask(asked)
    gained["the same call again after the lease"] = NOTHING if again["verdict"] == "deny" and again["reason"]["code"] == "already_settled" else str(again)

    s.decide("slow", {"n": 3}, money="3")
    before = used(s)
    d.kill()
    time.sleep(0.1 * SLOW)
    d.start()
    s.stream = d.door()
    lost("the daemon is killed while it runs", before, used(s))
    before = used(s, "mine")
    s.close()
    lost("the session is closed while it runs", before, nano(d.session().decide("slow", {"n": 4}, money="0")["remaining"]["mine"]["used"]))
    return gained
