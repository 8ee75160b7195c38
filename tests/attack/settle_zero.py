"""S9, B03: run the call, then report that it cost nothing, or less than nothing."""
from live import nano
from run import NOTHING

POLICY = None
BELIEVED = "the reservation back: whoever holds the token is believed about what has no price"
STATED = {
    "0 for a tool with a price": NOTHING,
    "0 with tokens used": NOTHING,
    "-1": NOTHING,
    "a second, lower report": NOTHING,
    "the report of a call that was denied": NOTHING,
    "somebody else's decision": NOTHING,
    "0 for a tool without a price": BELIEVED,
}


def used(s) -> int:
    return nano(s.state()["remaining"]["run"]["used"])


def attack(d) -> dict:
    gained = {}

    def returned(move, s, before, want=NOTHING):
        gained[move] = want if used(s) == before else f"{before - used(s)} nano-units"

    s = d.session()
    call = s.decide("fixed", {"n": 1})
    before = used(s)
    s.settle(call["decision"], money="0")
    returned("0 for a tool with a price", s, before)

    call = s.decide("work", {"n": 2}, money="0.3")
    before = used(s)
    refused = s.settle(call["decision"], cost={"money": "0", "tokens": {"input": 9000, "output": 4000}})
    returned("0 with tokens used", s, before, NOTHING if refused.get("error", {}).get("field") == "cost.money" else str(refused))
    s.settle(call["decision"], money="-1")
    returned("-1", s, before)
    s.settle(call["decision"], money="0.3")
    s.settle(call["decision"], money="0")
    returned("a second, lower report", s, before)
    no = s.decide("forbidden", {"n": 3})
    s.settle(no["decision"], money="0")
    returned("the report of a call that was denied", s, before)

    other = d.session()
    theirs = other.decide("work", {"n": 4}, money="0.4")
    before = used(other)
    s.settle(theirs["decision"], money="0")
    returned("somebody else's decision", other, before)

    call = s.decide("work", {"n": 5}, money="0.5")
    before = used(s)
    s.settle(call["decision"], money="0")
    gained["0 for a tool without a price"] = BELIEVED if before - used(s) == 500_000_000 else f"{before - used(s)} nano-units"
    return gained
