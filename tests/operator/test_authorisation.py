"""A07, A10, P6: who may do what, as one table: every operation times every asker. A refusal is the exact error, writes no entry and changes nothing.

Over the wire alone; requests are signed by tests/support/signer.py, which shares no code with pawl.
"""
from __future__ import annotations

import os

import pytest

from live import Live, Session, Stream, SLOW, have_binaries, until
from signer import Signer, hup

POLICY = """pawl: 1
name: authorisation
rules:
  - {id: ask, review: [held]}
  - {id: any, allow: [work]}
breakers:
  works: {match: [work], open: {failures: 1, within: 1m}, cool_down: 1h}
sessions: {open: 100, abort_hold: 1s}
...
"""
NONCE = "0" * 64
REFUSED = ("unauthenticated", "signature")
# what each signed operation says beside operator, nonce and signature
ORDERS = {
    "review.resolve": lambda w: {"review": w.card, "action": "resume", "reason": "seen"},
    "session.abort": lambda w: {"session": w.victim.id, "reason": "seen"},
    "breaker.reset": lambda w: {"breaker": "works", "reason": "seen"},
    "policy.reload": lambda w: {"reason": "seen"},
}
# one field of each that is changed after signing
ALTERED = {
    "review.resolve": lambda w: {"action": "abort"},
    "session.abort": lambda w: {"session": w.other.id},
    "breaker.reset": lambda w: {"reason": "other words"},
    "policy.reload": lambda w: {"operator": "berta"},
}
READS = ["status", "session.list", "policy.show", "nonce", "review.list", "review.show"]
OWN = ["decide", "settle", "claim", "review.wait", "session.state", "heartbeat", "session.close"]


class World:
    """Two sessions, a card that waits, a decision that is open, a breaker that is open; anna and berta are enrolled, mallory is not."""

    def __init__(self, d: Live):
        self.live = d
        self.anna, self.berta, self.mallory = (Signer(n) for n in ("anna", "berta", "mallory"))
        self.asker, self.other, self.victim = (Session(d.door()) for _ in range(3))
        self.card = self.asker.decide("held", {"n": 1})["review"]
        done = self.asker.decide("work", {"n": 1})
        self.open = self.other.decide("work", {"n": 2})["decision"]
        self.asker.settle(done["decision"], "error")
        assert self.asker.state()["breakers"][0]["state"] == "open"

    def order(self, op: str, signer: Signer, nonce: str | None = None) -> dict:
        return signer.request(nonce or self.nonce(), op, **ORDERS[op](self))

    def nonce(self) -> str:
        return self.live.ask_operator("nonce")["nonce"]

    def at_operator(self, message: dict) -> dict:
        with Stream(self.live.operator, 10 * SLOW) as s:
            return s.ask(message)

    def at_agent(self, message: dict) -> dict:
        with self.live.door() as s:
            return s.ask(message)

    def looks(self) -> tuple:
        """All that an unallowed request could have changed."""
        ask = self.live.ask_operator
        state = [x.state() for x in (self.asker, self.other, self.victim)]
        for s in state:
            del s["expires"]  # looking renews it
        rows = ask("session.list", limit=1000)["sessions"]
        for r in rows:
            del r["expires"]
        return self.live.seq(), state, rows, ask("review.list", all=True)["reviews"], ask("policy.show")["hash"], ask("status")["policy"]["loaded"]

    def refused(self, ask, message: dict, code: str, field: str | None) -> None:
        before = self.looks()
        reply = ask(message)
        assert reply.get("error") and (reply["error"]["code"], reply["error"]["field"]) == (code, field), reply
        assert "verdict" not in reply and "state" not in reply
        assert self.looks() == before

    def message(self, op: str, session: Session, token: str) -> dict:
        """An agent's operation on what is `session`'s, or speaks of it, with this token."""
        m = session.decide_message("held", {"n": 1}) if op in ("decide", "claim") else session.message(op)
        m.update(op=op, token=token)
        if op in ("claim", "review.wait"):
            m["review"] = self.card
        if op == "settle":
            m.update(decision=self.open, outcome="ok")
        return m


@pytest.fixture(scope="module")
def world():
    if not have_binaries():
        pytest.skip("no pawld: build it, or set PAWL_BUILD")
    with Live(POLICY) as d:
        d.start()
        w = World(d)
        for signer in (w.anna, w.berta):
            signer.enrol(d)
        hup(d, 2)
        yield w
        d.stop()
        assert d.verify().returncode == 10


# ---- the operator's operations, by those who may not

@pytest.mark.parametrize("op", [*ORDERS, *READS])
def test_the_agent_door_has_no_operator_operation(world, op):
    plain = {"v": 1, "op": op, **({"review": world.card} if op == "review.show" else {})}
    world.refused(world.at_agent, plain, "malformed", "op")
    world.refused(world.at_agent, {**plain, "session": world.asker.id, "token": world.asker.token}, "malformed", "op")
    if op in ORDERS:  # right in everything but the door
        world.refused(world.at_agent, world.order(op, world.anna), "malformed", "op")


@pytest.mark.parametrize("op", OWN)
def test_the_operator_door_has_no_agent_operation(world, op):
    world.refused(world.at_operator, world.message(op, world.asker, world.asker.token), "malformed", "op")


@pytest.mark.parametrize("op", ORDERS)
class TestOrders:
    def test_without_operator(self, world, op):
        m = world.order(op, world.anna)
        world.refused(world.at_operator, {"v": 1, "op": op, **ORDERS[op](world)}, "malformed", "operator")
        for field in ("operator", "nonce", "signature"):
            world.refused(world.at_operator, {k: v for k, v in m.items() if k != field}, "malformed", field)

    def test_with_a_session_token_for_a_key(self, world, op):
        """The requester as operator: it knows names and can reach the door, and has no key."""
        m = {k: v for k, v in world.order(op, world.anna).items() if k != "signature"}
        world.refused(world.at_operator, {**m, "signature": world.asker.token * 2}, *REFUSED)
        world.refused(world.at_operator, {**m, "nonce": world.nonce(), "signature": "0" * 128}, *REFUSED)
        world.refused(world.at_operator, {**m, "token": world.asker.token, "signature": "0" * 128}, "malformed", "token")

    def test_by_nobody_who_is_enrolled(self, world, op):
        world.refused(world.at_operator, world.order(op, world.mallory), *REFUSED)

    def test_with_another_key_under_an_enrolled_name(self, world, op):
        false_anna = Signer("anna")
        world.refused(world.at_operator, world.order(op, false_anna), *REFUSED)
        m = {"v": 1, "op": op, "operator": "anna", "nonce": world.nonce(), **ORDERS[op](world)}
        world.refused(world.at_operator, world.berta.sign(m), *REFUSED)

    def test_over_a_nonce_that_nobody_gave(self, world, op):
        for nonce in (NONCE, os.urandom(32).hex()):
            world.refused(world.at_operator, world.order(op, world.anna, nonce), *REFUSED)

    def test_altered_after_signing(self, world, op):
        m = world.order(op, world.anna)
        world.refused(world.at_operator, {**m, **ALTERED[op](world)}, *REFUSED)
        m = world.order(op, world.anna)
        world.refused(world.at_operator, {**m, "nonce": world.nonce()}, *REFUSED)
        m = world.order(op, world.anna)
        world.refused(world.at_operator, {**m, "signature": m["signature"][:-2] + ("00" if m["signature"][-2:] != "00" else "01")}, *REFUSED)

    def test_signed_for_another_operation(self, world, op):
        """The operation is part of what is signed."""
        m = world.anna.request(world.nonce(), "policy.reload" if op != "policy.reload" else "breaker.reset", **ORDERS[op](world))
        world.refused(world.at_operator, {**m, "op": op}, *REFUSED)

    def test_added_after_signing(self, world, op):
        m = world.order(op, world.anna)
        extra, code, field = {  # a field of the operation breaks the signature; one that it has not is malformed before any key is looked at
            "review.resolve": ({"action": "abort", "tree": True}, *REFUSED),
            "session.abort": ({"tree": True}, *REFUSED),
            "breaker.reset": ({"owner": "local"}, *REFUSED),
            "policy.reload": ({"reason": "x"}, *REFUSED),
        }[op]
        world.refused(world.at_operator, {**m, **extra}, code, field)

    def test_by_a_key_that_was_revoked(self, world, op):
        carl = Signer("carl").enrol(world.live)
        hup(world.live)
        early = world.order(op, carl)  # signed while it was good
        carl.revoke(world.live)
        hup(world.live)
        world.refused(world.at_operator, early, *REFUSED)
        world.refused(world.at_operator, world.order(op, carl), *REFUSED)


# ---- the agent's operations, with the token of another session

@pytest.mark.parametrize("op", OWN)
def test_another_sessions_token(world, op):
    for token in (world.other.token, os.urandom(32).hex(), "0" * 64):
        world.refused(world.at_agent, world.message(op, world.asker, token), "unauthenticated", None)


@pytest.mark.parametrize("op, field", [("claim", "review"), ("review.wait", "review"), ("settle", "decision")])
def test_what_is_anothers_with_ones_own_token(world, op, field):
    session = world.asker if op == "settle" else world.other
    world.refused(world.at_agent, world.message(op, session, session.token), "malformed", field)


def test_a_child_of_another_session(world):
    m = {"v": 1, "op": "session.open", "agent": "local", "parent": world.asker.id, "parent_token": world.other.token}
    world.refused(world.at_agent, m, "unauthenticated", None)
    world.refused(world.at_agent, {"v": 1, "op": "session.open", "agent": "anna"}, "unauthenticated", None)


# ---- those who may: last, since these change what the table above looks at

@pytest.mark.parametrize("op", READS)
def test_looking_needs_no_signature(world, op):
    seq = world.live.seq()
    reply = world.at_operator({"v": 1, "op": op, **({"review": world.card} if op == "review.show" else {})})
    assert "error" not in reply and world.live.seq() == seq


@pytest.mark.parametrize("op", ["policy.reload", "breaker.reset", "review.resolve", "session.abort"])
def test_an_enrolled_operator_and_the_same_bytes_again(world, op):
    """Whatever was asked for and tried in between by who has no key: only a good signature uses a nonce up."""
    seq = world.live.seq()
    m = world.order(op, world.berta if op == "breaker.reset" else world.anna)
    world.refused(world.at_operator, world.order(op, world.mallory, m["nonce"]), *REFUSED)
    with Stream(world.live.operator, 10 * SLOW) as looker:
        for _ in range(300):
            assert "nonce" in looker.ask({"v": 1, "op": "nonce"})
    reply = world.at_operator(m)
    assert "error" not in reply, reply
    until("its one entry", lambda: world.live.seq() == seq + 1)
    body = next(e["body"] for e in world.live.entries() if e["seq"] == seq)
    assert body["operator"] == m["operator"] and reply["log"]["seq"] == seq
    assert body["reason"] == "seen" and body["signature"] == m["signature"] and body["key"].startswith(m["operator"] + "+")
    world.refused(world.at_operator, m, *REFUSED)
    if op == "review.resolve":  # a second, honest answer: the first stands
        world.refused(world.at_operator, world.order(op, world.berta), "replay_conflict", None)
    if op == "session.abort":
        world.refused(world.at_operator, world.order(op, world.berta), "session_closed", None)


def test_that_agents_and_operator_share_a_uid_is_said(world):
    """A07: with one uid for all the promise is partial, and status says so."""
    assert world.live.status()["promises"]["P6"]["state"] == "partial"
