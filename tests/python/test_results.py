"""What a body hands back: results that cannot be read, and results that are work still to come.

A result whose own code raises while it is hashed is returned and settled all the same; an awaitable, a future or a
generator settles when it has ended. Against the scripted daemon.
"""

import asyncio
import concurrent.futures
import dataclasses
import datetime as dt
import functools
import gc
import inspect
import threading
import time
import types

import pytest
from fake_daemon import Late

import pawl


def last(fake, op):
    return fake.ops(op)[-1]


# ---- results and arguments whose own code raises ----


@dataclasses.dataclass
class Unset:
    a: int = 1
    b: int = dataclasses.field(init=False)


class BadKey(str):
    def __format__(self, spec):
        raise RuntimeError("format")

    def __str__(self):
        raise RuntimeError("str")


class LazyDict(dict):
    def items(self):
        raise ConnectionError("lazy")


class Row(list):
    def __init__(self, error):
        super().__init__([1])
        self.error = error

    def __iter__(self):
        raise self.error


class Zone(dt.tzinfo):
    def utcoffset(self, when):
        raise NotImplementedError


class Proxy:
    """As werkzeug's: its class is what it stands for, and here that is gone."""

    @property
    def __class__(self):
        raise LookupError("outside of a request")


UNREADABLE = [
    ("unset field", Unset, "args.x.b"),
    ("lazy dict", lambda: LazyDict(x=1), "args.x"),
    ("closed cursor", lambda: Row(OSError("closed")), "args.x"),
    ("no memory", lambda: Row(MemoryError()), "args.x"),
    ("too deep", lambda: Row(RecursionError()), "args.x"),
    ("inside", lambda: {"k": [0, Unset()]}, "args.x.k[1].b"),
    ("zone", lambda: dt.datetime(2020, 1, 1, tzinfo=Zone()), "args.x"),
    ("proxy", Proxy, "args.x"),
]
MANNERS = ["plain", "async", "generator", "async generator"]


def run_one(manner, session, value, **how):
    """A guarded body of that manner which hands out value: what its caller gets."""
    if manner == "plain":
        return pawl.guard("f", session=session, **how)(lambda: value)()
    if manner == "async":

        @pawl.guard(session=session, **how)
        async def f():
            return value

        return asyncio.run(f())
    if manner == "generator":

        @pawl.guard(session=session, **how)
        def g():
            yield value

        return list(g())[0]

    @pawl.guard(session=session, **how)
    async def ag():
        yield value

    async def main():
        return [x async for x in ag()][0]

    return asyncio.run(main())


@pytest.mark.parametrize("make", [r[1] for r in UNREADABLE], ids=[r[0] for r in UNREADABLE])
@pytest.mark.parametrize("manner", MANNERS)
def test_unreadable_result_is_kept_and_settled(fake, session, manner, make):
    value = make()
    assert run_one(manner, session, value) is value
    settles = fake.ops("settle")
    assert len(settles) == 1 and settles[0]["outcome"] == "ok" and "result" not in settles[0]
    assert session.settle_failures == 0


def test_key_with_bad_format_is_its_text(fake, session):
    value = {BadKey("k"): 1}
    assert run_one("plain", session, value) is value
    assert last(fake, "settle")["result"]["bytes"] == len('{"k":1}')
    pawl.guard("f", session=session)(lambda x: 0)(value)
    assert last(fake, "decide")["args"] == {"x": {"k": 1}}


@pytest.mark.parametrize("manner", MANNERS[:2])
def test_interrupt_while_hashing(fake, session, manner):
    """Ctrl-C is the caller's to hear, and the body did run."""
    with pytest.raises(KeyboardInterrupt):
        run_one(manner, session, Row(KeyboardInterrupt()))
    assert [s["outcome"] for s in fake.settles()] == ["ok"]


@pytest.mark.parametrize("manner", MANNERS)
def test_interrupt_in_cost(fake, session, manner):
    def cost(result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one(manner, session, 1, cost=cost)
    assert [s["outcome"] for s in fake.settles()] == ["ok"]


class Lying(dict):
    """Good when it is checked, and not a moment later."""

    looks = 0

    def items(self):
        self.looks += 1
        return {"money": "0.25" if self.looks == 1 else "lie"}.items()


def test_cost_is_read_once(fake, session):
    run_one("plain", session, 1, cost=lambda r: Lying())
    assert last(fake, "settle")["cost"] == {"money": "0.25"} and session.settle_failures == 0


@pytest.mark.parametrize("manner", MANNERS)
def test_log_handler_that_raises(fake, session, manner):
    import logging

    class Bad(logging.Handler):
        def handle(self, record):
            raise OSError("disk full")

    def cost(result):
        raise ValueError

    handler = Bad()
    logging.getLogger("pawl").addHandler(handler)
    try:
        fake.on("settle", b"garbage")
        assert run_one(manner, session, 7, cost=cost) == 7
    finally:
        logging.getLogger("pawl").removeHandler(handler)


@pytest.mark.parametrize("make, where", [r[1:] for r in UNREADABLE], ids=[r[0] for r in UNREADABLE])
@pytest.mark.parametrize("manner", ["plain", "async"])
def test_unreadable_argument_is_never_asked_about(fake, session, manner, make, where):
    ran = []

    def body(x):
        ran.append(x)

    async def abody(x):
        ran.append(x)

    f = pawl.guard("f", session=session)(body if manner == "plain" else abody)
    with pytest.raises(ValueError) as e:
        f(make()) if manner == "plain" else asyncio.run(f(make()))
    assert str(e.value).startswith(f"{where}: ") and e.value.__cause__ is not None
    assert ran == [] and fake.ops("decide") == []


# ---- plain functions whose result is work to come ----


class Awaitable:
    def __init__(self, seconds, value):
        self.seconds, self.value = seconds, value

    def __await__(self):
        yield from asyncio.sleep(self.seconds).__await__()
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


async def sleeps(seconds, value):
    return await Awaitable(seconds, value)


@types.coroutine
def old_style(seconds, value):
    return (yield from Awaitable(seconds, value).__await__())


def as_task(seconds, value):
    return asyncio.get_running_loop().create_task(sleeps(seconds, value))


def as_future(seconds, value):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    say = future.set_exception if isinstance(value, BaseException) else future.set_result
    loop.call_later(seconds, say, value)
    return future


PENDING = [sleeps, Awaitable, old_style, as_task, as_future]


@pytest.mark.parametrize("make", PENDING)
def test_awaitable_settles_at_its_end(fake, session, make):
    f = pawl.guard("f", session=session, cost=lambda r: {"tokens": r})(lambda *a: make(*a))

    async def main():
        pending = f(0.05, 5)
        await asyncio.sleep(0)
        assert fake.ops("settle") == []
        return await pending

    assert asyncio.run(main()) == 5
    (settle,) = fake.ops("settle")
    assert settle["outcome"] == "ok" and settle["result"]["bytes"] == 1 and settle["cost"] == {"tokens": 5}
    assert float(settle["duration"].removesuffix("ms")) >= 50


@pytest.mark.parametrize("make", PENDING)
@pytest.mark.parametrize("how, outcome", [("raises", "error"), ("cancelled", "cancelled")])
def test_awaitable_that_fails(fake, session, make, how, outcome):
    f = pawl.guard("f", session=session, args=lambda *a: {})(lambda *a: make(*a))

    async def main():
        pending = asyncio.ensure_future(f(0.02, KeyError("x") if how == "raises" else 1))
        if how == "cancelled":
            await asyncio.sleep(0.005)
            pending.cancel()
        await pending

    with pytest.raises(KeyError if how == "raises" else asyncio.CancelledError):
        asyncio.run(main())
    (settle,) = fake.ops("settle")
    assert settle["outcome"] == outcome
    assert settle["error"]["kind"] == ("KeyError" if how == "raises" else "asyncio.exceptions.CancelledError")


@pytest.mark.parametrize("make", [as_task, as_future])
def test_future_stays_itself(fake, session, make):
    """It runs whether or not anybody awaits it, so it settles so; and a loop that ends cancels it."""
    made = []

    def body(seconds):
        made.append(make(seconds, 1))
        return made[-1]

    f = pawl.guard("f", session=session)(body)

    async def main():
        assert f(0.01) is made[0]
        await asyncio.sleep(0.05)
        assert [s["outcome"] for s in fake.ops("settle")] == ["ok"]
        f(10)

    asyncio.run(main())
    if make is as_task:
        assert [s["outcome"] for s in fake.ops("settle")] == ["ok", "cancelled"]


def test_lost_exception_of_a_task_is_still_reported(fake, session):
    f = pawl.guard("f", session=session)(lambda: as_task(0, KeyError("lost")))
    heard = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context["message"]))
        f()
        await asyncio.sleep(0.05)
        gc.collect()

    asyncio.run(main())
    assert heard == ["Task exception was never retrieved"]
    assert [s["outcome"] for s in fake.ops("settle")] == ["error"]


def test_future_of_another_loop(fake, session):
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_debug(True)  # checks that nothing touches it from another thread
        task = asyncio.create_task(sleeps(0.1, 1))
        f = pawl.guard("f", session=session)(lambda: task)
        assert await asyncio.to_thread(f) is task
        assert fake.ops("settle") == []
        await task
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [s["outcome"] for s in fake.ops("settle")] == ["ok"]


def test_future_of_a_thread(fake, session):
    go = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f = pawl.guard("f", session=session)(lambda: pool.submit(lambda: go.wait(5) and 5))
        future = f()
        assert isinstance(future, concurrent.futures.Future)
        time.sleep(0.02)
        assert fake.ops("settle") == []
        go.set()
        assert future.result() == 5
        assert fake.settles()[0]["outcome"] == "ok" and fake.ops("settle")[0]["result"]["bytes"] == 1
        failing = pawl.guard("f", session=session)(lambda: pool.submit(lambda: 1 / 0))()
        assert isinstance(failing.exception(), ZeroDivisionError)
        assert fake.settles(2)[1]["outcome"] == "error"


def test_awaitable_is_cancelled_after_its_timeout(fake, session, caplog):
    f = pawl.guard("f", session=session, timeout_seconds=0.1)(lambda: Awaitable(10, 1))

    async def main():
        await f()

    with pytest.raises(TimeoutError, match="f was cancelled after"):
        asyncio.run(main())
    assert last(fake, "settle")["error"] == {"kind": "timeout"} and "overdue" not in caplog.text


def test_task_past_its_timeout_is_overdue(fake, session):
    f = pawl.guard("f", session=session, timeout_seconds=0.02)(lambda: as_task(0.06, 1))

    async def main():
        return await f()

    assert asyncio.run(main()) == 1
    assert last(fake, "settle")["outcome"] == "ok" and last(fake, "settle")["error"] == {"kind": "overdue"}


def test_generator_from_a_plain_function(fake, session):
    def numbers(log):
        try:
            got = yield 1
            log.append(got)
            yield 2
            return 3
        finally:
            log.append("end")

    log = []
    f = pawl.guard("f", session=session, cost=lambda r: {"tokens": r})(lambda: numbers(log))
    it = f()
    assert inspect.isgenerator(it) and next(it) == 1 and it.send("sent") == 2 and fake.ops("settle") == []
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == 3 and log == ["sent", "end"]
    assert last(fake, "settle")["outcome"] == "ok" and last(fake, "settle")["cost"] == {"tokens": 3}
    for _ in f():
        break
    gc.collect()
    assert fake.settles(2)[1]["outcome"] == "cancelled" and log[2:] == ["end"]


def test_async_generator_from_a_plain_function(fake, session):
    async def numbers(n):
        for i in range(n):
            await asyncio.sleep(0.04)
            yield i

    f = pawl.guard("f", session=session, timeout_seconds=0.1)(lambda n: numbers(n))

    async def main():
        it = f(2)
        assert inspect.isasyncgen(it) and await anext(it) == 0 and fake.ops("settle") == []
        assert [x async for x in it] == [1] and last(fake, "settle")["outcome"] == "ok"
        it = f(2)
        await anext(it)
        await it.aclose()
        assert last(fake, "settle")["outcome"] == "cancelled"
        with pytest.raises(TimeoutError):
            async for _ in f(10):
                pass
        assert last(fake, "settle")["error"] == {"kind": "timeout"}

    asyncio.run(main())


def test_context_managers_and_iterators_come_back_as_they_are(fake, session):
    class Both(Awaitable):
        async def __aenter__(self): ...

        async def __aexit__(self, *_): ...

    for value in (Both(0, 1), iter([1]), map(str, [1]), functools.partial(int)):
        assert run_one("plain", session, value) is value
        assert last(fake, "settle")["outcome"] == "ok"
    assert len(fake.ops("settle")) == 4


# ---- a question whose caller has gone ----


def cancelled_in_flight(fake, again, **main_how):
    """Cancels a task whose question is out; again(rq) answers the second asking."""
    ran = []

    def answer(rq):
        return Late(0.2, fake.allow(rq)) if len(fake.ops("decide")) == 1 else again(rq)

    fake.on("decide", answer)

    @pawl.guard("f", **main_how)
    async def f():
        ran.append(1)

    async def main():
        task = asyncio.create_task(f())
        while not fake.ops("decide"):
            await asyncio.sleep(0.001)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    took = asyncio.run(main())
    assert ran == []
    return took


def test_cancelled_question_is_given_back(fake, session):
    decision = []

    def again(rq):
        reply = fake.allow(rq)
        decision.append(reply["decision"])
        return reply

    cancelled_in_flight(fake, again, session=session)
    first, second = fake.ops("decide")
    assert first == second  # the same call of the same client: no second question
    (settle,) = fake.ops("settle")
    assert settle["outcome"] == "not_run" and settle["decision"] == decision[0]


def test_cancelled_question_that_was_denied(fake, session):
    cancelled_in_flight(fake, fake.deny, session=session)
    assert len(fake.ops("decide")) == 2 and fake.ops("settle") == [] and session.settle_failures == 0


def test_giving_back_is_bounded(fake, session, monkeypatch):
    from fake_daemon import Hang

    monkeypatch.setattr("pawl._asking.GIVE_BACK", 0.2)
    assert cancelled_in_flight(fake, lambda rq: Hang, session=session) < 0.5
    assert fake.ops("settle") == []


def test_cancelled_before_the_question_went_out(fake, session):
    """Nothing was asked, so nothing is asked now."""
    go = threading.Event()

    @pawl.guard(session=session)
    async def f(x):
        return x

    async def main():
        fake.on("decide", lambda rq: fake.allow(rq) if go.wait(5) else None)
        tasks = [asyncio.create_task(f(i)) for i in range(70)]  # six wait for a place
        while len(fake.ops("decide")) < 64:
            await asyncio.sleep(0.001)
        for t in tasks[64:]:
            t.cancel()
        await asyncio.sleep(0.01)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    got = asyncio.run(main())
    assert got[:64] == list(range(64)) and all(isinstance(e, asyncio.CancelledError) for e in got[64:])
    assert len(fake.ops("decide")) == 64 and {s["outcome"] for s in fake.ops("settle")} == {"ok"}


def test_second_cancel_ends_the_waiting_and_not_the_giving_back(fake, session):
    @pawl.guard(session=session)
    async def f():
        raise AssertionError("ran")

    async def main():
        fake.on("decide", lambda rq: Late(0.2, fake.allow(rq)))
        task = asyncio.create_task(f())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 0.1
        # the loop ends here and cancels the giving back: it is then done the blocking way

    asyncio.run(main())
    assert [s["outcome"] for s in fake.settles()] == ["not_run"]


def test_loop_that_ends_while_a_task_asks(fake, session):
    @pawl.guard(session=session)
    async def f():
        raise AssertionError("ran")

    async def main():
        fake.on("decide", lambda rq: Late(0.1, fake.allow(rq)))
        task = asyncio.create_task(f())
        while not fake.ops("decide"):
            await asyncio.sleep(0.001)
        assert not task.done()

    asyncio.run(main())
    assert [s["outcome"] for s in fake.settles()] == ["not_run"]
