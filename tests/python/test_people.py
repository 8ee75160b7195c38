"""Reviews, breakers and child sessions with the real pawld; the person is `pawl` with an enrolled key.

A04 A05 A09 A13 (an approval is for one call of one session, once), L12 (children are in their parent's tree).
"""

import asyncio
import json
import math
import signal
import threading
import time

import pytest

import pawl

POLICY = """\
pawl: 1
name: people
default: deny
tools:
  paid: {cost: 0.1 USD}
rules:
  - {id: work, allow: [work, paid, read, api]}
  - {id: ask,  review: [pay, refund]}
budgets:
  run: {per: session, match: paid, limit: 1 USD}
loops:
  repeat: {same: [tool, args], limit: 3}
breakers:
  api: {match: api, open: {failures: 3, within: 1m}, cool_down: 1s}
reviews: {timeout: TIMEOUT}
sessions: {abort_hold: 1s}
...
"""
MANNERS = ["plain", "async"]


@pytest.fixture
def people(run_real):
    return run_real(POLICY.replace("TIMEOUT", "10m"))


@pytest.fixture(params=MANNERS)
def manner(request):
    return request.param


def waiting(session, n=1):
    """The cards that wait for a person, once there are n."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        rows = [r["review"] for r in session.state()["reviews"] if r["state"] == "pending"]
        if len(rows) >= n:
            return rows
        time.sleep(0.02)
    raise AssertionError(f"no {n} cards: {session.state()['reviews']}")


class Caller:
    """`pay` in a thread of its own, since it waits: what it returned or raised, and how often its body ran."""

    def __init__(self, session, manner, amount=5, wait="30s"):
        self.ran, self.got = [], None

        if manner == "plain":

            @pawl.guard("pay", session=session, wait=wait)
            def pay(amount):
                self.ran.append(amount)
                return "paid"

            self.call = lambda: pay(amount)
        else:

            @pawl.guard("pay", session=session, wait=wait)
            async def apay(amount):
                self.ran.append(amount)
                return "paid"

            self.call = lambda: asyncio.run(apay(amount))
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            self.got = self.call()
        except BaseException as e:
            self.got = e

    def end(self):
        self.thread.join(15)
        assert not self.thread.is_alive()
        return self.got


def test_resumed_runs_once(people, manner):
    """A09: one approval, one body; the next equal call asks again."""
    with pawl.Session() as s:
        caller = Caller(s, manner)
        (review,) = waiting(s)
        assert caller.ran == []
        people.pawl("resume", review, "--reason", "fine")
        assert caller.end() == "paid" and caller.ran == [5]
        state = s.state()
        assert state["open"] == [] and state["executions"] == 1 and s.settle_failures == 0
        with pytest.raises(pawl.ReviewPending) as e:
            s.ask("pay", {"amount": 5})
        assert e.value.review != review
    assert caller.ran == [5]


def test_skipped(people, manner):
    with pawl.Session() as s:
        caller = Caller(s, manner)
        people.pawl("skip", waiting(s)[0], "--reason", "not today")
        e = caller.end()
        assert type(e) is pawl.Skipped and e.code is pawl.ReasonCode.REVIEW_SKIPPED and caller.ran == []
        assert e.operator == "anna" and e.operator_reason == "not today"
        with pytest.raises(pawl.Skipped):  # no second card for the same question
            s.ask("pay", {"amount": 5}, wait="10s")
        s.settle(s.ask("work", {}))  # and the session goes on


def test_aborted(people, manner):
    """All that wait in the session are told, also those of other cards; then nothing runs, and for a while none opens."""
    with pawl.Session() as s:
        callers = [Caller(s, manner, amount) for amount in (5, 6)]
        people.pawl("abort", waiting(s, 2)[0])
        ends = [c.end() for c in callers]
        assert [type(e) for e in ends] == [pawl.Aborted] * 2, ends
        assert {e.code for e in ends} == {"review_aborted", "session_aborted"}
        with pytest.raises(pawl.Aborted) as e:
            s.ask("work", {})
        assert e.value.code is pawl.ReasonCode.SESSION_ABORTED
        with pytest.raises(pawl.Aborted) as e:
            pawl.Session.open()
        assert 0 < e.value.retry_after_seconds <= 1
        time.sleep(e.value.retry_after_seconds)
    pawl.Session.open().close()
    assert callers[0].ran == callers[1].ran == []


def test_timed_out(run_real, manner):
    run_real(POLICY.replace("TIMEOUT", "1s"))
    with pawl.Session() as s:
        caller = Caller(s, manner)
        e = caller.end()
        assert type(e) is pawl.Denied and e.code is pawl.ReasonCode.REVIEW_TIMEOUT and caller.ran == []
        with pytest.raises(pawl.Denied) as late:
            s.claim(e.review, "pay", {"amount": 5})
        assert late.value.code is pawl.ReasonCode.REVIEW_TIMEOUT
        with pytest.raises(pawl.ReviewPending) as again:  # it may ask again: a new card
            s.ask("pay", {"amount": 5})
        assert again.value.review != e.review


def test_wait_that_ends_first(people, manner):
    """A13: the yes that comes late belongs to the card. An equal call asks anew; only a claim by its holder spends it."""
    with pawl.Session() as s:
        caller = Caller(s, manner, wait=0.3)
        e = caller.end()
        assert type(e) is pawl.ReviewPending and caller.ran == []
        with pytest.raises(pawl.ReviewPending):
            e.claim()  # nobody has answered
        people.pawl("resume", e.review)
        permit = e.claim()
        s.settle(permit)
        with pytest.raises(pawl.Denied) as again:
            e.claim()
        assert again.value.code is pawl.ReasonCode.ALREADY_CLAIMED
        with pytest.raises(pawl.ReviewPending) as new:
            s.ask("pay", {"amount": 5})
        assert new.value.review != e.review
        assert s.state()["executions"] == 1


def test_claim_is_for_these_arguments(people):
    """A04: what was shown is what runs."""
    with pawl.Session() as s, pawl.Session() as other:
        with pytest.raises(pawl.ReviewPending) as e:
            s.ask("pay", {"amount": 5})
        review = e.value.review
        people.pawl("resume", review)
        for who, tool, args in (
            (s, "pay", {"amount": 50}),
            (s, "refund", {"amount": 5}),
            (s, "pay", {}),
            (other, "pay", {"amount": 5}),
        ):
            with pytest.raises(pawl.Malformed) as no:
                who.claim(review, tool, args)
            assert no.value.field == "review"
        assert s.state()["executions"] == 0
        permit = asyncio.run(s.aclaim(review, "pay", {"amount": 5}))
        asyncio.run(s.asettle(permit))
        assert s.state()["executions"] == 1


def test_approval_is_spent_by_the_equal_call_only(people):
    """A05: other arguments and another tool ask again; another call id does not matter."""
    with pawl.Session() as s:
        with pytest.raises(pawl.ReviewPending) as e:
            s.ask("pay", {"amount": 5}, call="one")
        people.pawl("resume", e.value.review)
        for tool, amount in (("pay", 6), ("refund", 5)):
            with pytest.raises(pawl.ReviewPending):
                s.ask(tool, {"amount": amount})
        permit = s.ask("pay", {"amount": 5}, call="two")
        s.settle(permit)
        shown = [json.loads(line) for line in people.pawl("log", "show", "--json").splitlines()]
        assert any(permit.decision == f"d_{i}" and "pay" in json.dumps(row) for i, row in enumerate(shown))


def test_claim_twice_is_one_permit(people):
    """A lost answer comes again, byte for byte; the settled call never runs again."""
    with pawl.Session() as s:
        with pytest.raises(pawl.ReviewPending) as e:
            s.ask("pay", {"amount": 5})
        people.pawl("resume", e.value.review)
        first = s.claim(e.value.review, "pay", {"amount": 5}, call="c")
        assert s.claim(e.value.review, "pay", {"amount": 5}, call="c") == first
        s.settle(first)
        with pytest.raises(pawl.Denied) as no:
            s.claim(e.value.review, "pay", {"amount": 5}, call="c")
        assert no.value.code is pawl.ReasonCode.ALREADY_SETTLED
        assert s.state()["executions"] == 1


def test_waiter_outlives_a_restart(people):
    """A01, from the waiter's side: the question is asked again, joins its card, and gets the answer."""
    with pawl.Session() as s:
        caller = Caller(s, "plain")
        (review,) = waiting(s)
        people.stop(signal.SIGKILL)
        people.start()
        people.pawl("resume", review)
        got = caller.end()
        if isinstance(got, pawl.Unavailable):  # pawld was away for longer than a question waits for it: ask again
            got = caller.call()
        assert got == "paid" and caller.ran == [5]


def test_cancelled_waiter_leaves_the_card(people):
    with pawl.Session() as s:

        @pawl.guard("pay", session=s, wait="30s")
        async def pay(amount):
            raise AssertionError("ran")

        async def main():
            task = asyncio.create_task(pay(5))
            await asyncio.to_thread(waiting, s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert len(waiting(s)) == 1 and s.state()["open"] == []


def test_api_handlers_breaker(people):
    """A handler whose provider fails answers 503 with Retry-After, tries once after the cool-down, and is back."""
    calls, broken = [], [True]
    with pawl.Session() as s:

        @pawl.guard("api", session=s)
        def provider(n):
            calls.append(n)
            if broken[0]:
                raise ConnectionError("provider is down")
            return "fresh"

        def handler(n):
            try:
                return 200, provider(n), None
            except ConnectionError:
                return 502, "", None
            except pawl.Denied as e:
                assert e.code is pawl.ReasonCode.BREAKER_OPEN and e.rule == "api", e
                return 503, "", math.ceil(e.retry_after_seconds)

        assert [handler(n)[0] for n in range(3)] == [502] * 3
        refused = [handler(n) for n in range(10, 20)]
        assert refused == [(503, "", 1)] * 10 and calls == [0, 1, 2]
        time.sleep(1.05)
        assert handler(30)[0] == 502 and handler(31)[0] == 503  # the probe failed: a new cool-down
        time.sleep(1.05)
        broken[0] = False
        assert [handler(n) for n in range(40, 45)] == [(200, "fresh", None)] * 5
        assert calls == [0, 1, 2, 30, 40, 41, 42, 43, 44]
        s.settle(s.ask("work", {}))  # other tools never noticed


def test_l12_children_are_in_the_tree(people):
    """A sub-agent that repeats one call is stopped, by the tree's count: what the parent ran counts, and what it runs."""
    ran = []

    @pawl.guard("read")
    def read(path):
        ran.append(pawl.current_session().id)

    with pawl.Session() as parent:
        read("a")
        with parent.child() as child:
            assert child.id != parent.id
            read("a")
            read("a")
            for _ in range(5):
                with pytest.raises(pawl.Denied) as e:
                    read("a")
                assert e.value.code is pawl.ReasonCode.LOOP_REPEAT
            with child.child() as grandchild, pytest.raises(pawl.Denied):
                read("a")
            read("b")
        with pytest.raises(pawl.Denied):
            read("a")
    assert ran == [parent.id, child.id, child.id, child.id] and grandchild.parent is child


def test_l12_headless_review_is_a_denial(run_real):
    run_real(POLICY.replace("TIMEOUT", "10m").replace("default: deny", "default: deny\nattended: false"))
    with pawl.Session() as parent, parent.child() as child:
        began = time.monotonic()
        with pytest.raises(pawl.Denied):
            child.ask("pay", {"amount": 5}, wait="30s")
        assert time.monotonic() - began < 5 and child.state()["executions"] == 0


def test_child_draws_from_its_parent(people):
    """25 % of what is left when it opens, and all of it the parent's money."""
    with pawl.Session(limits={"money": "1"}) as parent:
        for n in range(2):
            parent.settle(parent.ask("paid", {"n": n}))
        with parent.child(limits={"money": "25%"}) as child:  # of 0.8 that are left
            for n in range(2):
                child.settle(child.ask("paid", {"n": n}))
            with pytest.raises(pawl.Denied) as e:
                child.ask("paid", {"n": 3})
            assert e.value.code is pawl.ReasonCode.BUDGET and e.value.limit == "0.2"
        assert parent.state()["remaining"]["run"]["used"] == "0.4"


def test_child_ends_with_its_parent(people, caplog):
    parent = pawl.Session.open()
    child = parent.child()
    child.settle(child.ask("work", {}))
    parent.close()
    with pytest.raises(pawl.Denied) as e:
        child.ask("work", {"n": 2})
    assert e.value.code is pawl.ReasonCode.SESSION_CLOSED
    with pytest.raises(pawl.Denied):
        parent.child().ask("work", {})
    with caplog.at_level("WARNING"), child:
        pass
    assert "not closed" not in caplog.text


def test_depth_of_children(people):
    sessions = [pawl.Session.open()]
    for _ in range(3):
        sessions.append(sessions[-1].child()._opened())
    with pytest.raises(pawl.Denied) as e:
        sessions[-1].child()._opened()
    assert e.value.code is pawl.ReasonCode.SESSION_LIMIT
    sessions[0].close()
