"""How a guarded body ends, and what is reported of it. Against the scripted daemon."""

import asyncio
import gc
import logging
import time

import pytest
from fake_daemon import Hang, Late

import pawl


def last(fake, op):
    return fake.ops(op)[-1]


# ---- what is reported ----


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text either")


OUTCOMES = [
    (ValueError("boom"), "error", "ValueError"),
    (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
    (SystemExit(1), "error", "SystemExit"),
    (asyncio.CancelledError(), "cancelled", "asyncio.exceptions.CancelledError"),
    (Odd(), "error", "test_settle.Odd"),
]


@pytest.mark.parametrize("e, outcome, kind", OUTCOMES, ids=[r[2] for r in OUTCOMES])
def test_raised(fake, session, e, outcome, kind):
    @pawl.guard(session=session)
    def f():
        raise e

    with pytest.raises(type(e)) as got:
        f()
    assert got.value is e
    settle = last(fake, "settle")
    assert (
        settle["outcome"] == outcome
        and settle["error"]["kind"] == kind
        and len(settle["error"]["sha256"]) == 64
        and "result" not in settle
    )


def test_equal_errors_have_equal_digests(fake, session):
    @pawl.guard(session=session)
    def f(x):
        raise ValueError(x)

    for x in ("a", "a", "b"):
        with pytest.raises(ValueError):
            f(x)
    a, b, c = [s["error"]["sha256"] for s in fake.ops("settle")]
    assert a == b != c


COSTS = [
    (lambda r: "0.25", {"money": "0.25"}),
    (lambda r: {"money": r, "tokens": 7}, {"money": "1", "tokens": 7}),
    (lambda r: None, None),
    (lambda r: 0.25, None),
    (lambda r: 1 / 0, None),
    (lambda r: "-1", None),
]


@pytest.mark.parametrize("cost, want", COSTS)
def test_cost(fake, session, caplog, cost, want):
    @pawl.guard(session=session, cost=cost)
    def f():
        return 1

    assert f() == 1
    assert last(fake, "settle").get("cost") == want and last(fake, "settle")["outcome"] == "ok"
    assert bool(caplog.records) == (want is None and cost(1) is not None if cost is not COSTS[4][0] else True)


def test_result_without_json_form(fake, session):
    @pawl.guard(session=session)
    def f():
        return object()

    f()
    assert last(fake, "settle")["outcome"] == "ok" and "result" not in last(fake, "settle")


@pytest.mark.parametrize(
    "reply",
    [
        Hang,
        b"garbage",
        {"v": 1, "op": "settle", "error": {"code": "replay_conflict", "message": "m"}},
        {"v": 1, "op": "settle", "decision": "d_999999"},
    ],
    ids=["hang", "garbage", "conflict", "another"],
)
def test_settle_that_fails_changes_nothing(fake, session, caplog, monkeypatch, reply):
    monkeypatch.setattr("pawl._client.SETTLE_TIMEOUT", 0.1)

    @pawl.guard(session=session)
    def f(x):
        if x:
            raise ValueError("mine")
        return "result"

    @pawl.guard(session=session)
    async def af():
        return "result"

    fake.on("settle", reply)
    assert f(0) == "result"
    with pytest.raises(ValueError, match="mine"):
        f(1)
    assert asyncio.run(af()) == "result"
    assert session.settle_failures == 3 and "was not settled" in caplog.text


def test_settle_is_tried_twice(fake, session):
    @pawl.guard(session=session)
    def f():
        return 1

    fake.on(
        "settle",
        lambda rq: b"garbage" if len(fake.ops("settle")) == 1 else {"v": 1, "op": "settle", "decision": rq["decision"]},
    )
    f()
    assert session.settle_failures == 0 and fake.ops("settle")[0] == fake.ops("settle")[1]


def test_daemon_that_dies_under_the_body(fake, session, caplog):
    @pawl.guard(session=session)
    def f():
        fake.kill()
        return "result"

    assert f() == "result" and session.settle_failures == 1


# ---- generators ----


def test_generator_body_waits_for_the_first_next(fake, session):
    ran = []

    @pawl.guard(session=session)
    def g(n):
        ran.append(n)
        got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"
        return "value"

    it = g(5)
    assert fake.ops("decide") == [] and ran == []
    assert next(it) == 1 and ran == [5] and it.send("sent") == "sent" and it.throw(KeyError()) == "caught"
    assert fake.ops("settle") == []
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == "value" and last(fake, "settle")["outcome"] == "ok"


ENDS = [
    ("exhausted", lambda it: list(it), "ok"),
    ("closed", lambda it: (next(it), it.close()), "cancelled"),
    ("thrown", lambda it: (next(it), it.throw(ValueError("x"))), "error"),
]


@pytest.mark.parametrize("end, outcome", [r[1:] for r in ENDS], ids=[r[0] for r in ENDS])
def test_generator_ends(fake, session, end, outcome):
    cleaned = []

    @pawl.guard(session=session, cost=lambda r: {"tokens": r})
    def g():
        try:
            yield 7
            yield 8
        finally:
            cleaned.append(len(fake.ops("settle")))

    it = g()
    try:
        end(it)
    except ValueError:
        pass
    assert cleaned == [0] and len(fake.ops("settle")) == 1 and last(fake, "settle")["outcome"] == outcome
    assert last(fake, "settle").get("cost") == (
        {"tokens": 8} if outcome == "ok" else None
    )  # the last item carries the usage


def test_generator_that_nobody_finishes(fake, session):
    @pawl.guard(session=session)
    def g():
        yield 1
        yield 2

    for _ in g():
        break
    gc.collect()
    assert fake.settles()[0]["outcome"] == "cancelled"


def test_async_generator(fake, session):
    seen = []

    @pawl.guard(session=session, cost=lambda r: {"tokens": r})
    async def g():
        try:
            got = yield 1
            seen.append(got)
            try:
                yield 2
            except KeyError:
                yield 3
        finally:
            seen.append("end")

    async def main():
        it = g()
        assert fake.ops("decide") == []
        assert await anext(it) == 1 and await it.asend("s") == 2 and await it.athrow(KeyError()) == 3
        with pytest.raises(StopAsyncIteration):
            await anext(it)
        assert seen == ["s", "end"]
        it = g()
        await anext(it)
        await it.aclose()
        it = g()
        await anext(it)
        with pytest.raises(ValueError):
            await it.athrow(ValueError())

    asyncio.run(main())
    assert [s["outcome"] for s in fake.ops("settle")] == ["ok", "cancelled", "error"] and seen[-2:] == ["end", "end"]
    assert fake.ops("settle")[0]["cost"] == {"tokens": 3}


# ---- async ----


def test_cancelled_task_settles(fake, session):
    started = []

    @pawl.guard(session=session)
    async def f():
        started.append(1)
        await asyncio.sleep(10)

    async def main():
        t = asyncio.create_task(f())
        while not started:
            await asyncio.sleep(0.001)
        t.cancel()
        with pytest.raises(asyncio.CancelledError):
            await t
        assert last(fake, "settle")["outcome"] == "cancelled"  # already there: the cancelled task waited for it

    asyncio.run(main())


def test_cancelled_twice_while_settling(fake, session, monkeypatch):
    """The second cancel ends the waiting, not the report."""
    fake.on("settle", lambda rq: Late(0.15, {"v": 1, "op": "settle", "decision": rq["decision"]}))

    @pawl.guard(session=session)
    async def f():
        await asyncio.sleep(10)

    async def main():
        t = asyncio.create_task(f())
        await asyncio.sleep(0.05)
        t.cancel()
        await asyncio.sleep(0.05)
        began = time.monotonic()
        t.cancel()
        with pytest.raises(asyncio.CancelledError):
            await t
        assert time.monotonic() - began < 0.1
        await asyncio.sleep(0.2)

    asyncio.run(main())
    assert [s["outcome"] for s in fake.ops("settle")] == ["cancelled"] and session.settle_failures == 0


def test_loop_that_ends_before_the_report_began(fake, session):
    @pawl.guard(session=session)
    async def f():
        asyncio.get_running_loop().call_soon(
            lambda: [t.cancel() for t in asyncio.all_tasks()]
        )  # as asyncio.run() does at its end
        return 1

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(f())
    assert [s["outcome"] for s in fake.ops("settle")] == ["ok"] and session.settle_failures == 0


def test_cancelled_while_asking(fake, session):
    ran = []

    @pawl.guard(session=session)
    async def f():
        ran.append(1)

    async def main():
        fake.on("decide", lambda rq: Late(0.2, fake.allow(rq)))
        t = asyncio.create_task(f())
        await asyncio.sleep(0.05)
        t.cancel()
        with pytest.raises(asyncio.CancelledError):
            await t
        await asyncio.sleep(0.25)

    asyncio.run(main())
    assert ran == []


def test_event_loop_is_not_blocked(fake, session):
    ticks = []

    @pawl.guard(session=session)
    async def f():
        return 1

    async def main():
        fake.on("decide", lambda rq: Late(0.2, fake.allow(rq)))
        t = asyncio.create_task(f())
        while not t.done():
            ticks.append(1)
            await asyncio.sleep(0.01)
        return await t

    assert asyncio.run(main()) == 1 and len(ticks) > 8


def test_plain_wrapper_around_async_body(fake, session):
    """Another decorator may hide that a body is async; it still settles when it has ended, not when it was made."""

    async def inner():
        await asyncio.sleep(0.05)
        return 5

    guarded = pawl.guard("f", session=session)(lambda: inner())

    async def main():
        coro = guarded()
        assert fake.ops("settle") == []
        assert await coro == 5

    asyncio.run(main())
    assert float(last(fake, "settle")["duration"].removesuffix("ms")) >= 50


# ---- timeout_seconds ----


def test_async_body_is_cancelled_after_its_timeout(fake, session):
    undone = []

    @pawl.guard("slow", session=session, timeout_seconds=0.1)
    async def f():
        try:
            await asyncio.sleep(10)
        finally:
            undone.append(1)

    began = time.monotonic()
    with pytest.raises(TimeoutError, match="slow was cancelled after timeout_seconds=0.1"):
        asyncio.run(f())
    assert undone == [1] and time.monotonic() - began < 1
    assert last(fake, "decide")["limits"]["lease"] == "100ms"
    assert last(fake, "settle")["outcome"] == "error" and last(fake, "settle")["error"] == {"kind": "timeout"}


def test_own_timeout_error_stays_its_own(fake, session):
    @pawl.guard(session=session, timeout_seconds=5)
    async def f():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="^mine$"):
        asyncio.run(f())
    assert last(fake, "settle")["error"]["kind"] == "TimeoutError"


def test_async_generator_timeout(fake, session):
    @pawl.guard(session=session, timeout_seconds=0.1)
    async def g():
        yield 1
        await asyncio.sleep(10)

    async def main():
        return [x async for x in g()]

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert last(fake, "settle")["error"] == {"kind": "timeout"}


def test_plain_body_is_reported_overdue(fake, session, caplog):
    """It cannot be stopped; it is said while it runs, and in the report."""

    @pawl.guard("slow", session=session, timeout_seconds=0.05)
    def f():
        end = time.monotonic() + 2
        while "overdue" not in caplog.text and time.monotonic() < end:
            time.sleep(0.005)
        return "kept"

    with caplog.at_level(logging.WARNING, "pawl"):
        assert f() == "kept"
    assert "slow is overdue: still running after timeout_seconds=0.05" in caplog.text
    assert last(fake, "settle")["outcome"] == "ok" and last(fake, "settle")["error"] == {"kind": "overdue"}


def test_body_in_time_is_not_overdue(fake, session, caplog):
    @pawl.guard(session=session, timeout_seconds=0.1)
    def f():
        return 1

    f()
    time.sleep(0.2)
    assert "overdue" not in caplog.text and "error" not in last(fake, "settle")
