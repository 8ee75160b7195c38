"""Waiting for a person, against a scripted pawld: a yes is the exact word of a claim, and nothing on the way to it is."""

import asyncio
import pickle
import threading
import time

import pytest
from fake_daemon import Hang, Hangup, Late, Raw
from test_failclosed import MANNERS, NOT_ALLOW, edit, make, manner  # noqa: F401

import pawl
from pawl import _review

NOT_CLAIMED = NOT_ALLOW | {"decide's op": edit(op="decide"), "review.wait's op": edit(op="review.wait")}


@pytest.mark.parametrize("name", NOT_CLAIMED)
def test_s6_claim_is_not_the_word(fake, session, name):
    ran = []
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    fake.on("claim", NOT_CLAIMED[name](fake))
    for m in MANNERS:
        with pytest.raises(pawl.PawlError):
            make(m, session, ran, wait="30s")()
    assert ran == [] and fake.ops("settle") == [] and len(fake.ops("claim")) >= len(MANNERS)


WORDS = (
    "RESUMED",
    "Resumed",
    "resumed ",
    " resumed",
    "resumed\n",
    "resume",
    "allow",
    "spent",
    "approved",
    "ok",
    "yes",
    "",
    "r\u0435sumed",
    None,
    True,
    1,
    ["resumed"],
    {"resumed": True},
)


@pytest.mark.parametrize("word", WORDS)
def test_s6_state_is_not_the_word(fake, session, word):
    """In the held answer, and in what review.wait tells: not claimed, not run."""
    ran = []
    fake.on("decide", lambda rq: fake.review(rq, word))
    for m in MANNERS:
        with pytest.raises(pawl.ProtocolError):
            make(m, session, ran, wait="30s")()
    fake.on("decide", fake.review)
    fake.on("review.wait", lambda rq: fake.waited(rq, word))
    for m in MANNERS:
        with pytest.raises(pawl.ProtocolError):
            make(m, session, ran, wait="30s")()
    assert ran == [] and fake.ops("claim") == []


ODD_CARDS = {
    "no review": lambda f: lambda rq: f.review(rq, "resumed", None),
    "review odd": lambda f: lambda rq: f.review(rq, "resumed", "d_7"),
    "review number": lambda f: lambda rq: f.review(rq, "resumed", 7),
    "no state": lambda f: lambda rq: {k: v for k, v in f.review(rq).items() if k != "review_state"},
}


@pytest.mark.parametrize("name", ODD_CARDS)
def test_card_that_cannot_be_read(fake, session, name):
    ran = []
    fake.on("decide", ODD_CARDS[name](fake))
    with pytest.raises(pawl.ProtocolError):
        make("plain", session, ran, wait="30s")()
    assert ran == [] and fake.ops("claim") == []


ODD_WAITS = {
    "another card": lambda f: lambda rq: f.waited(rq, "resumed", review="r_8"),
    "no card": lambda f: lambda rq: f.waited(rq, "resumed", review=None),
    "another op": lambda f: lambda rq: f.waited(rq, "resumed", op="claim"),
    "version 2": lambda f: lambda rq: f.waited(rq, "resumed", v=2),
    "a verdict": lambda f: lambda rq: f.allow(rq | {"call": "c"}, verdict="allow"),
    "error": lambda f: lambda rq: f.waited(rq, "resumed", error={"code": "unauthenticated", "message": "m"}),
    "error odd": lambda f: lambda rq: f.waited(rq, "resumed", error={}),
    "garbage": lambda f: lambda rq: b"\xff",
    "a list": lambda f: lambda rq: b"[]",
    "raw": lambda f: lambda rq: Raw(b"resumed resumed"),
    "hang-up": lambda f: lambda rq: Hangup,
}


@pytest.mark.parametrize("name", ODD_WAITS)
def test_wait_that_cannot_be_read(fake, session, name):
    ran = []
    fake.on("decide", fake.review)
    fake.on("review.wait", ODD_WAITS[name](fake))
    for m in MANNERS:
        with pytest.raises(pawl.PawlError):
            make(m, session, ran, wait="30s")()
    assert ran == [] and fake.ops("claim") == []


def test_d15_silence_of_a_wait_and_of_a_claim(fake, hasty, manner):  # noqa: F811
    ran = []
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    fake.on("claim", lambda rq: Hang)
    with pytest.raises(pawl.Unavailable, match="no answer"):
        make(manner, hasty, ran, wait="30s")()
    fake.on("decide", fake.review)
    fake.on("review.wait", lambda rq: Hang)
    with pytest.raises(pawl.Unavailable, match=r"no answer within 0\.(4|39)"):
        make(manner, hasty, ran, wait=0.1)()
    assert ran == []


def test_resumed_is_claimed_and_runs_once(fake, session, manner):  # noqa: F811
    ran = []
    fake.on("decide", fake.review)
    fake.on("review.wait", lambda rq: Late(0.05, fake.waited(rq, "resumed")))
    make(manner, session, ran, wait="30s", max_repeat_calls=2)()
    (ask,), (wait,), (claim,) = fake.ops("decide"), fake.ops("review.wait"), fake.ops("claim")
    assert len(ran) == 1 and len(fake.settles()) == 1
    assert ask.pop("wait") == "30s" and ask.pop("op") == "decide"
    assert wait["review"] == "r_7" and wait["wait"] <= "30s" and claim.pop("op") == "claim"
    assert claim.pop("review") == "r_7" and claim == ask  # session, token, client, call, tool, args, kind, limits


def test_without_wait_nobody_waits(fake, session, manner):  # noqa: F811
    ran = []
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    with pytest.raises(pawl.ReviewPending):
        make(manner, session, ran)()
    assert "wait" not in fake.ops("decide")[0] and fake.ops("claim") == [] == ran


def test_allowed_at_once_needs_no_person(fake, session, manner):  # noqa: F811
    ran = []
    make(manner, session, ran, wait="2m")()
    assert len(ran) == 1 and fake.ops("decide")[0]["wait"] == "60s" and fake.ops("claim") == []


def test_long_wait_is_cut_into_pieces(fake, session, manner, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_review, "MAX_HELD", 0.05)
    ran = []
    fake.on("decide", lambda rq: Late(0.05, fake.review(rq)))
    fake.on("review.wait", lambda rq: Late(0.05, fake.waited(rq)))
    began = time.monotonic()
    with pytest.raises(pawl.ReviewPending) as e:
        make(manner, session, ran, wait=0.25)()
    assert 0.24 < time.monotonic() - began < 1.5 and ran == [] and fake.ops("claim") == []
    assert fake.ops("decide")[0]["wait"] == "50ms" and 2 <= len(fake.ops("review.wait")) <= 5
    assert e.value.review == "r_7" and e.value.expires and "pawl resume" in str(e.value)


def test_wait_that_pawld_cannot_hold_is_not_asked_in_a_circle(fake, session, manner):  # noqa: F811
    fake.on("decide", fake.review)
    with pytest.raises(pawl.ReviewPending):
        make(manner, session, [], wait=0.5)()
    assert 1 <= len(fake.ops("review.wait")) <= 5


NOES = [
    ("skipped", None, pawl.Skipped, "review_skipped"),
    ("aborted", None, pawl.Aborted, "review_aborted"),
    ("timeout", None, pawl.Denied, "review_timeout"),
    ("closed", None, pawl.Denied, "policy_changed"),
    ("closed", "aborted", pawl.Aborted, "session_aborted"),
    ("closed", "closed", pawl.Denied, "session_closed"),
    ("closed", "stale", pawl.Denied, "stale_session"),
    ("closed", ["aborted"], pawl.Denied, "policy_changed"),
]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("state,ended,kind,code", NOES)
def test_answers_that_are_no(fake, session, manner, state, ended, kind, code, later):  # noqa: F811
    ran = []
    fake.on("decide", fake.review if later else lambda rq: fake.review(rq, state))
    fake.on("review.wait", lambda rq: fake.waited(rq, state))
    fake.on("session.state", lambda rq: {"v": 1, "op": "session.state", "ended": ended})
    with pytest.raises(pawl.Denied) as e:
        make(manner, session, ran, wait="30s")()
    assert type(e.value) is kind and e.value.code == code and e.value.review == "r_7" and e.value.tool == "work"
    assert ran == [] and fake.ops("claim") == []
    if kind in (pawl.Skipped, pawl.Aborted) and not ended:
        assert (e.value.operator, e.value.operator_reason, e.value.message) == ("anna", "because", "because")
        assert "by anna" in str(e.value) and "because" in str(e.value)


def test_who_said_no_is_a_courtesy(fake, session):
    fake.on("decide", lambda rq: fake.review(rq, "skipped"))
    fake.on("review.wait", b"garbage")
    with pytest.raises(pawl.Skipped) as e:
        session.ask("work", {}, wait="30s")
    assert e.value.operator is None and pickle.loads(pickle.dumps(e.value)).code == "review_skipped"


CODES = [
    ("review_skipped", pawl.Skipped),
    ("review_aborted", pawl.Aborted),
    ("session_aborted", pawl.Aborted),
    ("review_timeout", pawl.Denied),
    ("already_claimed", pawl.Denied),
    ("breaker_open", pawl.Denied),
]


@pytest.mark.parametrize("code,kind", CODES)
def test_codes_are_exceptions(fake, session, manner, code, kind):  # noqa: F811
    """In a deny of decide, of claim, and in an error reply."""
    ran = []
    for decide, claim in (
        (lambda rq: fake.deny(rq, code) | {"retry_after": "1.5s"}, None),
        (lambda rq: fake.review(rq, "resumed"), lambda rq: fake.deny(rq, code) | {"retry_after": "1.5s"}),
        (lambda rq: {"v": 1, "op": "decide", "error": {"code": code, "message": "m", "retry_after": "1.5s"}}, None),
    ):
        fake.on("decide", decide)
        fake.on("claim", claim)
        with pytest.raises(pawl.Denied) as e:
            make(manner, session, ran, wait="30s")()
        assert type(e.value) is kind and e.value.code == code
        assert e.value.retry_after == "1.5s" and e.value.retry_after_seconds == 1.5
    assert ran == []


def test_new_reason_is_a_new_card(fake, session, manner):  # noqa: F811
    """A claim that is judged `review` again: the same wait goes on, for that card."""
    ran = []
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    fake.on("claim", lambda rq: fake.review(rq, review="r_9") if rq["review"] == "r_7" else fake.allow(rq))
    fake.on("review.wait", lambda rq: fake.waited(rq, "resumed"))
    make(manner, session, ran, wait="30s")()
    assert len(ran) == 1 and [r["review"] for r in fake.ops("review.wait")] == ["r_9"]
    assert [r["review"] for r in fake.ops("claim")] == ["r_7", "r_9"]


def test_claim_of_a_card_that_is_not_answered_after_all(fake, session, manner):  # noqa: F811
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    fake.on("claim", lambda rq: fake.review(rq, "resumed") if len(fake.ops("claim")) < 9 else fake.deny(rq))
    with pytest.raises(pawl.ReviewPending):
        make(manner, session, [], wait="30s")()
    assert len(fake.ops("claim")) == 1


# ---- later ----


def held(fake, session):
    fake.on("decide", fake.review)
    with pytest.raises(pawl.ReviewPending) as e:
        session.ask("work", {"x": 1}, limits={"repeat": 3})
    return e.value


@pytest.mark.parametrize("how", ["claim", "aclaim"])
def test_claim_later(fake, session, how):
    e = held(fake, session)

    def claim():
        return e.claim() if how == "claim" else asyncio.run(e.aclaim())

    fake.on("claim", fake.review)
    with pytest.raises(pawl.ReviewPending):
        claim()
    fake.on("claim", lambda rq: Hangup)
    with pytest.raises(pawl.Unavailable):
        claim()
    fake.on("claim", fake.allow)
    permit = claim()
    assert permit.decision.startswith("d_") and permit.tool == "work"
    claims = fake.ops("claim")
    assert {c["review"] for c in claims} == {"r_7"} and all(c["args"] == {"x": 1} for c in claims)
    assert len({c["call"] for c in claims}) == 1  # a lost answer comes again
    claim()
    assert fake.ops("claim")[-1]["call"] != claims[0]["call"]  # and what came is not asked for again


def test_two_threads_cannot_claim_at_once(fake, session):
    """The same call id would get both of them the one permit."""
    e, go, got = held(fake, session), threading.Event(), []
    fake.on("claim", lambda rq: fake.allow(rq) if go.wait(10) else None)
    first = threading.Thread(target=lambda: got.append(e.claim()))
    first.start()
    while not fake.ops("claim"):
        time.sleep(0.002)
    with pytest.raises(RuntimeError, match="another thread"):
        e.claim()
    go.set()
    first.join(10)
    assert len(got) == 1 and len(fake.ops("claim")) == 1


def test_claim_by_its_id(fake, session):
    permit = session.claim("r_12", "work", {"x": 1}, call="mine")
    assert permit.call == "mine" and asyncio.run(session.aclaim("r_12", "work", {"x": 1})).decision
    assert [c["review"] for c in fake.ops("claim")] == ["r_12"] * 2
    for wrong in ("12", "d_12", "r_", "r_1x", "r_\u0661"):
        with pytest.raises(ValueError):
            session.claim(wrong, "work", {})
    with pytest.raises(TypeError):
        session.claim(12, "work", {})
    assert len(fake.ops("claim")) == 2


def test_copy_of_a_held_call_cannot_claim(fake, session):
    twin = pickle.loads(pickle.dumps(held(fake, session)))
    with pytest.raises(RuntimeError, match="Session.claim"):
        twin.claim()
    assert twin.review == "r_7" and fake.ops("claim") == []


# ---- cancelled on the way ----


def cancelled(fake, session, op):
    """Cancels a guarded task once `op` has reached pawld."""
    ran = []

    @pawl.guard("work", session=session, wait="30s")
    async def work():
        ran.append(1)

    async def main():
        task = asyncio.create_task(work())
        while not fake.ops(op):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ran == []


def test_cancelled_while_held(fake, session):
    """Asked again without wait. A card that waits is left as it is; what was allowed after all is given back."""
    fake.on("decide", lambda rq: Hang if "wait" in rq else fake.review(rq))
    cancelled(fake, session, "decide")
    assert ["wait" in rq for rq in fake.ops("decide")] == [True, False] and fake.ops("settle") == []
    fake.requests.clear()
    fake.on("decide", lambda rq: Hang if "wait" in rq else fake.allow(rq))
    cancelled(fake, session, "decide")
    assert [s["outcome"] for s in fake.settles()] == ["not_run"]


def test_cancelled_while_waiting(fake, session):
    fake.on("decide", fake.review)
    fake.on("review.wait", lambda rq: Hang)
    cancelled(fake, session, "review.wait")
    assert len(fake.ops("decide")) == 1 and fake.ops("claim") == [] == fake.ops("settle")


def test_cancelled_claim_is_given_back(fake, session):
    fake.on("decide", lambda rq: fake.review(rq, "resumed"))
    fake.on("claim", lambda rq: Hang if len(fake.ops("claim")) == 1 else fake.allow(rq))
    cancelled(fake, session, "claim")
    first, second = fake.ops("claim")
    assert first == second and [s["outcome"] for s in fake.settles()] == ["not_run"]


def all_asked(fake, n=70, seconds=5.0):
    end = time.monotonic() + seconds
    while len(fake.ops("decide")) < n and time.monotonic() < end:
        time.sleep(0.005)
    return len(fake.ops("decide")) == n


def test_waiting_tasks_leave_room_for_others(fake, session):
    """More than 64 wait for a person: other questions, reports and heartbeats still go out."""
    fake.on("decide", lambda rq: Hang if "wait" in rq else fake.allow(rq))

    async def main():
        tasks = [asyncio.create_task(session.aask("held", {"i": i}, wait="30s")) for i in range(70)]
        assert await asyncio.to_thread(all_asked, fake)
        await session.asettle(await session.aask("work", {}))
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_waiting_threads_leave_room_for_others(fake, session):
    go, got = threading.Event(), []
    fake.on("decide", lambda rq: fake.deny(rq) if "wait" not in rq or go.wait(20) else None)

    def hold():
        try:
            session.ask("held", {}, wait="30s")
        except pawl.PawlError as e:
            got.append(type(e))

    threads = [threading.Thread(target=hold) for _ in range(70)]
    for t in threads:
        t.start()
    try:
        assert all_asked(fake)
        with pytest.raises(pawl.Denied):
            session.ask("work", {})
        assert got == []
    finally:
        go.set()
        for t in threads:
            t.join(10)
    assert got == [pawl.Denied] * 70


@pytest.mark.parametrize("wait", ["", "30", "0s", "-1s", "soon", "1e3s", "31d", 0, -1, float("nan"), float("inf"), 1e9])
def test_wait_that_is_no_span(wait):
    with pytest.raises(ValueError, match="wait"):
        pawl.guard("t", wait=wait)(lambda: None)


@pytest.mark.parametrize("wait", [True, [], b"30s"])
def test_wait_of_another_type(wait):
    with pytest.raises(TypeError, match="wait"):
        pawl.guard("t", wait=wait)(lambda: None)


# ---- children ----


def test_child_is_opened_below_its_parent(fake):
    parent = pawl.Session("crew", socket=fake.path, agent_token="secret", timeout=3)
    child = parent.child(limits={"money": "25%", "calls": 3}, labels={"role": "reader"})
    assert fake.requests == []
    with child:
        child.ask("work", {})
    above, below = fake.ops("session.open")
    assert "parent" not in above and below["parent"] == parent.id and below["parent_token"] == parent._token
    assert below["agent"] == "crew" and below["agent_token"] == "secret" and "root" not in below
    assert below["limits"] == {"money": "25%", "calls": 3} and child.parent is parent and child._door.timeout == 3
    assert fake.ops("decide")[0]["session"] == child.id

    async def main():
        async with parent.child("helper", root="/srv") as c:
            return c

    assert asyncio.run(main()).agent == "helper"
    last = fake.ops("session.open")[-1]
    assert last["root"] == "/srv" and "agent_token" not in last
    parent.close()


def test_child_goes_to_its_parents_door(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("PAWL_SOCKET", str(tmp_path / "nobody.sock"))  # where a session without socket= would look
    with pawl.Session(socket=fake.path) as parent, parent.child() as child:
        child.ask("work", {})
    assert len(fake.ops("session.open")) == 2


@pytest.mark.parametrize("share", ["0%", "101%", "25.5%", "%", "025%", "-5%", "25 %", "2500%"])
def test_share_that_is_none(fake, share):
    with pytest.raises(ValueError, match="share"):
        pawl.Session(socket=fake.path).child(limits={"money": share})


def test_children_of_nothing(fake):
    with pytest.raises(ValueError, match="only a child"):
        pawl.Session(socket=fake.path, limits={"money": "25%"})
    with pytest.raises(TypeError, match="parent"):
        pawl.Session(parent="s_1")
    with pytest.raises(ValueError, match="socket"):
        pawl.Session(parent=pawl.Session(), socket=fake.path)


def test_child_of_a_session_that_does_not_open(fake):
    fake.on("session.open", {"v": 1, "op": "session.open", "error": {"code": "session_limit", "message": "m"}})
    with pytest.raises(pawl.Denied):
        pawl.Session(socket=fake.path).child().ask("work", {})
    assert len(fake.ops("session.open")) == 1 and fake.ops("decide") == []
