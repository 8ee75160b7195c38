"""Shadow mode: the body runs on `allow`, as ever, and the permit says what would have been answered."""

import asyncio
import logging

import pytest

import pawl

WOULD = {
    "verdict": "deny",
    "retry_after": "20s",
    "reason": {"code": "budget", "rule": "run", "message": "too much", "counter": "4.999", "limit": "5", "unit": "USD"},
}


def test_permit_carries_it(fake, session, caplog):
    fake.on("decide", lambda rq: fake.allow(rq, would=WOULD))
    with caplog.at_level(logging.INFO, "pawl"):
        permit = session.ask("t", {})
    assert permit.would == pawl.Would("deny", "budget", "too much", "run", "4.999", "5", "USD", "20s")
    assert permit.would.code is pawl.ReasonCode.BUDGET
    assert [r.levelname for r in caplog.records] == ["INFO"]
    assert "t (d_" in caplog.text and "enforced: deny, too much [budget]" in caplog.text


def test_absent_under_enforce(fake, session, caplog):
    with caplog.at_level(logging.INFO, "pawl"):
        assert session.ask("t", {}).would is None
    assert caplog.records == []


@pytest.mark.parametrize("would", [None, {}, [], "deny", 7, {"verdict": 1}, {"verdict": None, "reason": []}])
def test_what_cannot_be_read_is_left_out(fake, session, would):
    fake.on("decide", lambda rq: fake.allow(rq, would=would))
    assert session.ask("t", {}).would is None


@pytest.mark.parametrize("reason", [None, [], "no", {"code": 5, "message": []}])
def test_half_of_it(fake, session, reason):
    fake.on("decide", lambda rq: fake.allow(rq, would={"verdict": "review", "reason": reason}))
    assert session.ask("t", {}).would == pawl.Would("review", "unavailable")


def test_a_code_of_a_newer_pawld(fake, session):
    fake.on("decide", lambda rq: fake.allow(rq, would={"verdict": "deny", "reason": {"code": "brand_new"}}))
    assert session.ask("t", {}).would.code == "brand_new"


@pytest.mark.parametrize("verdict", ["deny", "review", "maybe", None])
def test_it_is_no_verdict(fake, session, verdict):
    """What would have been answered lets nothing run: only the word allow does."""
    fake.on("decide", lambda rq: fake.deny(rq) | {"verdict": verdict, "would": {"verdict": "allow", "reason": {"code": "ok"}}})
    ran = []
    with pytest.raises(pawl.PawlError):
        pawl.guard("t", session=session)(lambda: ran.append(1))()
    assert ran == []


def test_on_pawld(run_real):
    policy = "pawl: 1\nname: t\nmode: shadow\nrules: [{id: never, deny: [wipe]}, {id: ask, review: [risky]}]\n...\n"
    ran = []
    run_real(policy)
    with pawl.Session() as s:

        @pawl.guard("wipe", session=s)
        def wipe():
            ran.append("wipe")

        @pawl.guard("risky", session=s, wait="30s")
        def risky():
            ran.append("risky")

        wipe()
        risky()  # nobody is waited for
        assert ran == ["wipe", "risky"]
        assert s.ask("wipe", {"n": 1}).would.rule == "never"
        assert s.ask("unheard.of", {}).would.code is pawl.ReasonCode.DEFAULT
        assert asyncio.run(s.aask("wipe", {"n": 2})).would.verdict == "deny"
        assert [d["tool"] for d in s.state()["denials"] if d["would"]] == ["wipe"]
        assert pawl.hello()["mode"] == "shadow"
