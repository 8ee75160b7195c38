"""Run the call, then say `cancelled` or `not_run`."""
from live import nano
from run import NOTHING

POLICY = """pawl: 1
name: cancelled
default: deny
tools:
  fixed: {cost: 0.01 USD}
  given: {cost: 0.01 USD, refund: true}
rules: [{id: all, allow: [fixed, given, work]}]
budgets:
  run: {per: session, limit: 10 USD}
  tries: {per: session, limit: 8 calls}
loops:
  repeat: {same: [tool, args], limit: 2, window: 50 calls, then: deny}
sessions: {lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
REFUND = "its price back: `refund: true` says in the policy that the caller is believed"
STATED = {
    "cancelled, a tool with a price": NOTHING,
    "not_run, a tool without a price": NOTHING,
    "cancelled, a tool with refund": REFUND,
    "a call more by cancelling": NOTHING,
    "a repeat more by cancelling": NOTHING,
}


def attack(d) -> dict:
    gained = {}

    def move(name, s, tool, outcome, money, back):
        call = s.decide(tool, {"for": name}, money=money)
        reply = s.settle(call["decision"], outcome)
        got = nano(reply["returned"]["money"])
        gained[name] = back[0] if got == back[1] else f"{got} nano-units"

    s = d.session()
    move("cancelled, a tool with a price", s, "fixed", "cancelled", None, (NOTHING, 0))
    move("not_run, a tool without a price", s, "work", "not_run", "0.02", (NOTHING, 0))
    move("cancelled, a tool with refund", s, "given", "cancelled", None, (REFUND, 10_000_000))
    ran = 3
    for n in range(10):
        call = s.decide("given", {"again": n})
        if call["verdict"] == "allow":
            ran += 1
            s.settle(call["decision"], "cancelled")
    gained["a call more by cancelling"] = NOTHING if ran == 8 else f"{ran} calls of 8"
    s, ran = d.session(), 0
    for _ in range(5):
        call = s.decide("given", {"same": True})
        if call["verdict"] == "allow":
            ran += 1
            s.settle(call["decision"], "cancelled")
    gained["a repeat more by cancelling"] = NOTHING if ran == 2 else f"{ran} equal calls of 2"
    return gained
