"""A01, A02, P6, P8: SIGKILL between any two of review, resolve, claim and settle, and while one of them is under way.

After each restart: a card is what was answered last (an answer that did not come may or may not have happened, but only once); an approval
is spent at most once; denials and breakers stay; the log verifies and says the same.
"""
from __future__ import annotations

import collections
import itertools
import json
import os
import random
import signal
import time
from typing import Any

import pytest

from live import Live, Session, Stream, alive, children, until, SLOW
from signer import Signer

POLICY = """pawl: 1
name: review-kill
tools:
  pay: {cost: 1 USD}
  work: {cost: 0 USD}
  closed: {cost: 0 USD}
rules:
  - {id: ask, review: [pay]}
  - {id: never, deny: [closed], when: {args.n: {is: 1}}, sticky: tree}
  - {id: any, allow: [work, closed]}
budgets:
  run: {per: session, limit: 1000 USD}
breakers:
  works: {match: [work], open: {failures: 1, within: 1m}, cool_down: 1h}
sessions: {lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
STEPS = ("review", "resolve", "claim", "settle")
AFTER = {None: None, "review": "pending", "resolve": "resumed", "claim": "spent", "settle": "spent"}
SEED = int(os.environ.get("PAWL_SEED", "0")) or random.randrange(1 << 30)
TORN = 4 if os.environ.get("PAWL_TEST_SHORT") else 24


def strike(d: Live, what: str) -> None:
    """Kills, and sees to it that a new pawld answers."""
    watcher, rest = d.watcher_pid, d.rest_pid
    if what == "rest":
        os.kill(rest, signal.SIGKILL)
        until("the watcher starts a new rest", lambda: [p for p in children(watcher) if p != rest and alive(p)], 20)
        d.wait_answers(30)
        d.rest_pid = d.status()["pid"]["rest"]
    else:
        d.kill()
        d.start()


class Case:
    """One payment that needs a person, and the state around it that must stay."""

    def __init__(self, d: Live, operator: Signer):
        self.d, self.operator = d, operator
        self.session = Session(d.door())
        self.card = self.decision = None
        self.done: str | None = None  # the last step that was answered

    def again(self) -> None:
        self.session.stream.close()
        self.session.stream = self.d.door()

    def prepare(self) -> None:
        """A denial that stays, and an open breaker."""
        assert self.session.decide("closed", {"n": 1})["reason"]["code"] == "rule"
        work = self.session.decide("work")
        if work["verdict"] == "allow":  # the first case opens it, for all
            assert "error" not in self.session.settle(work["decision"], "error")

    def message(self, step: str) -> dict[str, Any]:
        """The same bytes each time: what a client sends again when no answer came."""
        m = self.session.message(step)
        call = {"client": self.session.client, "call": f"pay-{step}", "tool": "pay", "args": {"amt": 5}}
        if step == "review":
            m.update(op="decide", **call)
        elif step == "claim":
            m.update(review=self.card, **call)
        else:
            m.update(decision=self.decision, outcome="ok", cost={"money": "0.4"})
        return m

    def send(self, step: str) -> dict[str, Any]:
        if step == "resolve":
            return self.operator.order(self.d, "review.resolve", review=self.card, action="resume", reason="seen")
        return self.session.stream.ask(self.message(step))

    def take(self, step: str, reply: dict[str, Any], sent_before: bool = False) -> None:
        if step == "resolve" and sent_before and reply.get("error", {}).get("code") == "replay_conflict":
            pass  # the first sending came through, and stands
        elif step == "review":
            assert reply["verdict"] == "review", reply
            self.card = reply["review"]
        elif step == "claim":
            assert reply["verdict"] == "allow", reply
            self.decision = reply["decision"]
        else:
            assert "error" not in reply, reply
        self.done = step

    def check(self, maybe: str | None = None) -> None:
        """maybe: a step that was sent and not answered."""
        if self.card:
            state = self.d.ask_operator("review.show", review=self.card)["state"]
            assert state in (AFTER[self.done], AFTER[maybe or self.done]), (self.done, maybe, state)
            waits = [r["review"] for r in self.d.ask_operator("review.list", session=self.session.id)["reviews"]]
            told = self.session.state()
            assert waits == [r["review"] for r in told["reviews"] if r["state"] == "pending"] == ([self.card] if state == "pending" else [])
        told = self.session.state()
        assert [(x["tool"], x["rule"]) for x in told["denials"]] == [("closed", "never")]
        assert [(x["breaker"], x["state"]) for x in told["breakers"]] == [("works", "open")]
        assert self.session.decide("closed", {"n": 2})["reason"]["code"] == "sticky_denial"
        assert self.session.decide("work")["reason"]["code"] == "breaker_open"

    def spent_once(self) -> None:
        """However it is presented again, the approval gives nothing more."""
        m = self.message("claim")
        for call, client in itertools.product(("pay-review", "another"), (self.session.client, os.urandom(16).hex())):
            reply = self.session.stream.ask({**m, "call": call, "client": client})
            assert (reply["verdict"], reply["reason"]["code"]) == ("deny", "already_claimed"), reply
        other = self.session.decide("pay", {"amt": 5})
        assert other["verdict"] == "review" and other["review"] != self.card, other


def check_log(d: Live, cases: list[Case]) -> None:
    entries = d.entries()
    spends = collections.Counter(e["body"]["spends"] for e in entries if e["body"].get("spends") and e["body"]["verdict"] == "allow")
    answers = collections.Counter(e["body"]["card"] for e in entries if e["body"]["kind"] == "resolve")
    settles = collections.Counter(e["body"]["decision"] for e in entries if e["body"]["kind"] == "settle")
    for c in cases:
        assert spends[c.card] == answers[c.card] == settles[c.decision] == 1, (c.card, spends, answers, settles)
    assert set(spends.values()) | set(answers.values()) == {1}
    done = d.verify()
    assert done.returncode == 10, (done.returncode, done.stdout, done.stderr)


@pytest.fixture
def world():
    operator = Signer("anna")
    with Live(POLICY) as d:
        operator.enrol(d)
        d.start()
        yield d, operator


@pytest.mark.parametrize("what", ["rest", "both"])
def test_a_kill_between_any_two_steps(world, what):
    d, operator = world
    case = Case(d, operator)
    case.prepare()
    for step in STEPS:
        strike(d, what)
        case.again()
        case.check()
        case.take(step, case.send(step))
    strike(d, what)
    case.again()
    case.check()
    case.spent_once()
    d.stop()
    check_log(d, [case])


@pytest.mark.parametrize("where", range(1, 4))
def test_a_kill_and_two_steps_at_once(world, where):
    """Of the steps before `where` all are answered before the kill, of those after it none were sent: each gap alone, one restart in all."""
    d, operator = world
    case = Case(d, operator)
    case.prepare()
    for n, step in enumerate(STEPS):
        if n == where:
            strike(d, "both")
            case.again()
            case.check()
        case.take(step, case.send(step))
    case.check()
    d.stop()
    check_log(d, [case])


def test_a_kill_while_a_step_is_under_way(world):
    """Sent, killed a moment later, sent again by its client: it happened once."""
    d, operator = world
    rng, cases = random.Random(SEED), []
    for n in range(TORN):
        step = STEPS[n % len(STEPS)]
        case = Case(d, operator)
        case.prepare()
        for before in STEPS[: STEPS.index(step)]:
            case.take(before, case.send(before))
        if step == "resolve":
            with Stream(d.operator, 10 * SLOW) as s:
                nonce = s.ask({"v": 1, "op": "nonce"})["nonce"]
                order = operator.request(nonce, "review.resolve", review=case.card, action="resume", reason="seen")
                leave(s, order, rng)
                strike(d, rng.choice(["rest", "both"]))
        else:
            leave(case.session.stream, case.message(step), rng)
            strike(d, rng.choice(["rest", "both"]))
        case.again()
        case.check(maybe=step)
        case.take(step, case.send(step), sent_before=True)
        for after in STEPS[STEPS.index(step) + 1 :]:
            case.take(after, case.send(after))
        case.check()
        case.spent_once()
        cases.append(case)
    d.stop()
    check_log(d, cases)
    print(f"seed {SEED}")


def leave(stream: Stream, message: dict[str, Any], rng: random.Random) -> None:
    """Sends and does not read; the answer, if it comes, is lost."""
    stream.send(json.dumps(message).encode())
    time.sleep(rng.choice([0, 0.0005, 0.002, 0.01]))
