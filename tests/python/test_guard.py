"""The decorator: what it asks, what it runs, what it reports. Against the scripted daemon."""

import asyncio
import concurrent.futures
import datetime as dt
import functools
import hashlib
import inspect
import threading
import typing
from decimal import Decimal
from pathlib import Path

import pytest

import pawl


def last(fake, op):
    return fake.ops(op)[-1]


# ---- what is asked ----


def plain(a, b=2, *rest, c, d=Path("x"), **more):
    return "ran"


class Tool:
    @pawl.guard
    def method(self, x):
        return (self, x)

    @pawl.guard
    @classmethod
    def above_class(cls, x):
        return (cls, x)

    @classmethod
    @pawl.guard
    def below_class(cls, x):
        return (cls, x)

    @pawl.guard
    @staticmethod
    def above_static(x):
        return x

    @staticmethod
    @pawl.guard
    def below_static(x):
        return x

    @pawl.guard
    async def amethod(self, x):
        return (self, x)

    @pawl.guard
    @staticmethod
    def static_cls(cls):
        return cls

    def two(self, cls):
        return cls

    def __call__(self, x):
        return x


ARGS = [
    ("defaults", lambda: pawl.guard(plain), (1,), {"c": 3}, {"a": 1, "b": 2, "rest": [], "c": 3, "d": "x", "more": {}}),
    (
        "by name",
        lambda: pawl.guard(plain),
        (),
        {"c": 3, "b": 1, "a": 0, "z": None},
        {"a": 0, "b": 1, "rest": [], "c": 3, "d": "x", "more": {"z": None}},
    ),
    (
        "rest",
        lambda: pawl.guard(plain),
        (1, 2, 3, 4),
        {"c": 5},
        {"a": 1, "b": 2, "rest": [3, 4], "c": 5, "d": "x", "more": {}},
    ),
    (
        "datetime and Path",
        lambda: pawl.guard("f")(lambda p, t: 0),
        (Path("a/b"), dt.date(2026, 1, 2)),
        {},
        {"p": "a/b", "t": "2026-01-02"},
    ),
    ("method", lambda: Tool().method, (1,), {}, {"x": 1}),
    ("classmethod above", lambda: Tool.above_class, (1,), {}, {"x": 1}),
    ("classmethod below", lambda: Tool().below_class, (1,), {}, {"x": 1}),
    ("static above", lambda: Tool.above_static, (1,), {}, {"x": 1}),
    ("static below", lambda: Tool().below_static, (1,), {}, {"x": 1}),
    ("bound method", lambda: pawl.guard("m")(Tool().__call__), (1,), {}, {"x": 1}),
    ("instance", lambda: pawl.guard("m")(Tool()), (1,), {}, {"x": 1}),
    (
        "partial",
        lambda: pawl.guard("p")(functools.partial(plain, c=1)),
        (9,),
        {},
        {"a": 9, "b": 2, "rest": [], "c": 1, "d": "x", "more": {}},
    ),
    ("free function with cls", lambda: pawl.guard("f")(lambda cls, self: 0), (1, 2), {}, {"cls": 1, "self": 2}),
    ("static with cls", lambda: Tool.static_cls, (1,), {}, {"cls": 1}),
    ("bound with cls", lambda: pawl.guard("f")(Tool().two), (1,), {}, {"cls": 1}),
    ("args= of a method", lambda: pawl.guard("f", args=lambda cls: {"n": cls})(Tool.two), (Tool(), 1), {}, {"n": 1}),
    (
        "args=",
        lambda: pawl.guard("f", args=lambda o, n=5: {"o": repr(o), "n": n})(lambda o, n=4: 0),
        (object,),
        {},
        {"o": "<class 'object'>", "n": 4},
    ),
    ("builtin", lambda: pawl.guard("len")(len), ("abc",), {}, {"obj": "abc"}),
]


@pytest.mark.parametrize("make, args, kwargs, want", [r[1:] for r in ARGS], ids=[r[0] for r in ARGS])
def test_args(fake, make, args, kwargs, want):
    make()(*args, **kwargs)
    assert last(fake, "decide")["args"] == want


def test_method_gets_its_self(fake):
    t = Tool()
    assert (
        t.method(1) == (t, 1)
        and Tool.below_class(2) == (Tool, 2)
        and Tool.above_class(2) == (Tool, 2)
        and Tool.above_static(3) == 3
    )
    assert asyncio.run(t.amethod(4)) == (t, 4) and last(fake, "decide")["args"] == {"x": 4}
    assert Tool.method(t, 5) == (t, 5) and last(fake, "decide")["args"] == {"x": 5}
    assert last(fake, "decide")["tool"] == "method"


def test_request_in_full(fake):
    @pawl.guard(
        "Page.Fetch",
        budget="0.50",
        max_repeat_calls=2,
        timeout_seconds=30,
        estimate={"money": Decimal("0.002"), "tokens": {"input": 9}},
    )
    def fetch(url):
        return url

    with pawl.Session.open(socket=fake.path) as s:
        fetch("docs/a.html")
        rq = last(fake, "decide")
        assert rq == {
            "v": 1,
            "op": "decide",
            "session": s.id,
            "token": "ab" * 32,
            "client": rq["client"],
            "call": rq["call"],
            "kind": "tool",
            "tool": "Page.Fetch",
            "args": {"url": "docs/a.html"},
            "estimate": {"money": "0.002", "tokens": {"input": 9}},
            "limits": {"money": "0.5", "repeat": 2, "lease": "30s"},
        }
        assert len(rq["client"]) == 32 and int(rq["client"], 16) >= 0
        fetch("docs/a.html")
        assert last(fake, "decide")["call"] != rq["call"] and last(fake, "decide")["client"] == rq["client"]
    settle = fake.ops("settle")[0]
    text = b'"docs/a.html"'
    assert settle["result"] == {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    assert (
        settle["outcome"] == "ok"
        and settle["duration"].endswith("ms")
        and "error" not in settle
        and "cost" not in settle
    )


def test_estimate_and_kind(fake):
    @pawl.guard(kind="llm", model="gpt-5", estimate=lambda prompt, n=1: {"tokens": len(prompt) * n})
    def complete(prompt, n=2):
        return prompt

    complete("abc")
    rq = last(fake, "decide")
    assert (rq["kind"], rq["model"], rq["estimate"]) == ("llm", "gpt-5", {"tokens": 6})


# ---- refused before anything is asked ----

AT_DECORATION = [
    (dict(budget=0.5), TypeError, 'budget="0.5"'),
    (dict(budget=-1), ValueError, "budget"),
    (dict(budget="1 USD"), ValueError, "budget"),
    (dict(estimate=0.1), TypeError, "estimate"),
    (dict(estimate={"mony": "1"}), ValueError, "mony"),
    (dict(max_repeat_calls=0), ValueError, "max_repeat"),
    (dict(max_repeat_calls=1.0), TypeError, "max_repeat"),
    (dict(max_repeat_calls=True), TypeError, "max_repeat"),
    (dict(timeout_seconds=0), ValueError, "timeout"),
    (dict(timeout_seconds="30"), TypeError, "timeout"),
    (dict(kind="tol"), ValueError, "kind"),
    (dict(kind="llm"), ValueError, "model"),
    (dict(model="m"), ValueError, "model"),
    (dict(tool=""), ValueError, "name"),
    (dict(tool="a b"), ValueError, "name"),
    (dict(tool="x" * 129), ValueError, "name"),
    (dict(tool="web_s\u0435arch"), ValueError, "name"),
    (dict(tool="web\u200bsearch"), ValueError, "name"),
    (dict(tool="a\nb"), ValueError, "name"),  # D04, U14
    (dict(args={}), TypeError, "args"),
    (dict(cost="1"), TypeError, "cost"),
    (dict(session="s"), TypeError, "session"),
    (dict(bugdet="1"), TypeError, "bugdet"),
]


@pytest.mark.parametrize("how, error, words", AT_DECORATION)
def test_wrong_at_decoration(how, error, words):
    with pytest.raises(error, match=words):
        pawl.guard(**how)(lambda: None) if "tool" in how else pawl.guard(**how)(plain)


@pytest.mark.parametrize("thing", [int, property(lambda s: 1), 5, None.__class__])
def test_wrong_thing(thing):
    with pytest.raises(TypeError, match="guard goes on"):
        pawl.guard()(thing)


def test_lambda_needs_a_name():
    with pytest.raises(ValueError, match="tool="):
        pawl.guard(lambda: 0)


@pytest.mark.parametrize(
    "value, error",
    [
        (float("nan"), ValueError),
        (2**63, ValueError),
        ("\ud800", ValueError),
        (object(), TypeError),
        ("x" * (1 << 20), ValueError),
    ],
)
def test_bad_argument_is_never_asked_about(fake, session, value, error):
    @pawl.guard(session=session)
    def f(x):
        raise AssertionError("ran")

    with pytest.raises(error):
        f(value)
    with pytest.raises(TypeError):
        f()  # and a call that Python itself refuses
    assert fake.ops("decide") == []


@pytest.mark.parametrize(
    "how",
    [
        dict(args=lambda x: [x]),
        dict(args=lambda x: 1 / 0),
        dict(estimate=lambda x: 0.1),
        dict(estimate=lambda x: 1 / 0),
    ],
)
def test_helper_that_fails_is_not_a_yes(fake, session, how):
    @pawl.guard(session=session, **how)
    def f(x):
        raise AssertionError("ran")

    with pytest.raises((TypeError, ZeroDivisionError)):
        f(1)
    assert fake.ops("decide") == []


# ---- threads, nesting ----


def test_thread_pool(fake):
    """One session for all, one request in flight a stream, every call its own id."""
    s = pawl.Session(socket=fake.path)

    @pawl.guard(session=s)
    def f(x):
        return x * 2

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(f, range(200))) == [x * 2 for x in range(200)]
    calls = fake.ops("decide")
    assert (
        len({c["call"] for c in calls}) == 200 and len(fake.ops("settle")) == 200 and len(fake.ops("session.open")) == 1
    )
    assert fake.overlaps == 0 and len({c["client"] for c in calls}) == 1
    s.close()


def test_many_tasks(fake, session):
    @pawl.guard(session=session)
    async def f(x):
        await asyncio.sleep(0.001)
        return x

    async def main():
        return await asyncio.gather(*(f(x) for x in range(200)))

    session._door.timeout = 5.0
    assert asyncio.run(main()) == list(range(200))
    assert fake.overlaps == 0 and fake.peak < 100


def test_nested(fake, session):
    @pawl.guard(session=session)
    def inner(x):
        return x

    @pawl.guard(session=session)
    def outer(x):
        return inner(x) + 1

    assert outer(1) == 2
    assert [r["tool"] for r in fake.ops("decide")] == ["outer", "inner"]
    fake.on("decide", lambda rq: fake.deny(rq) if rq["tool"] == "inner" else fake.allow(rq))
    with pytest.raises(pawl.Denied):
        outer(1)
    assert last(fake, "settle")["outcome"] == "error" and last(fake, "settle")["error"]["kind"] == "pawl.errors.Denied"


def test_recursion(fake, session):
    @pawl.guard(session=session)
    def down(n):
        return n and down(n - 1)

    assert down(5) == 0 and len(fake.ops("settle")) == 6


# ---- how it looks ----


def test_dress():
    @pawl.guard
    def fetch(url: str, *, when: "dt.date | None" = None) -> "list[Path]":
        """Gets it."""

    fetch.mark = 1
    assert (fetch.__name__, fetch.__doc__, fetch.__module__) == ("fetch", "Gets it.", __name__)
    sig = inspect.signature(fetch)
    assert list(sig.parameters) == ["url", "when"] and sig.parameters["when"].annotation == (dt.date | None)
    assert typing.get_type_hints(fetch) == {"url": str, "when": dt.date | None, "return": list[Path]}


def test_kinds_stay():
    @pawl.guard
    def a(): ...

    @pawl.guard
    async def b(): ...

    @pawl.guard
    def c():
        yield

    @pawl.guard
    async def d():
        yield

    assert (
        all(inspect.isfunction(f) for f in (a, b, c, d))
        and inspect.iscoroutinefunction(b)
        and inspect.isgeneratorfunction(c)
    )
    assert inspect.isasyncgenfunction(d) and not inspect.iscoroutinefunction(a)


def test_no_way_around():
    def decorated(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs)

        return inner

    async def co(): ...

    def gen():
        yield

    async def agen():
        yield

    def f(): ...

    for original in (f, co, gen, agen, decorated(f)):
        g = pawl.guard(original)
        hidden = {original, getattr(original, "__wrapped__", original)}
        assert not hasattr(g, "__wrapped__") and inspect.unwrap(g) is g
        named = [getattr(g, n) for n in dir(g) if not n.startswith("__")] + [c.cell_contents for c in g.__closure__]
        assert not hidden & {x for x in named if callable(x)}


def test_attributes_are_no_way_around():
    """singledispatch and many decorators keep the plain function under a name of their own."""

    class Carrier(str):
        pass

    def f(x):
        return x

    text = Carrier("t")
    text.original = f
    f.original, f.registry, f.inner, f.deep, f.text = f, {object: f}, [f], (1, ("a", f)), text
    f.bound, f.partial = f.__get__(1), functools.partial(f, 1)
    f.version, f.tags, f.ready, f.note, f.raw, f.rate = 3, ("a", (1, None)), True, None, b"x", 0.5
    kept = {"version": 3, "tags": ("a", (1, None)), "ready": True, "note": None, "raw": b"x", "rate": 0.5}

    dispatched = functools.singledispatch(f)
    for original in (f, dispatched, functools.lru_cache(f), type("T", (), {"f": f})().f):
        guarded = pawl.guard("forbidden")(original)
        own = {k: v for k, v in vars(guarded).items() if not k.startswith("__")}
        assert own == kept and guarded.__name__ == "f"
    assert not hasattr(pawl.guard("forbidden")(dispatched), "dispatch")


def test_threads_see_the_verdict_of_their_own_call(fake, session):
    """Half the calls are denied; no thread may take another's yes."""
    fake.on("decide", lambda rq: fake.deny(rq) if rq["args"]["x"] % 2 else fake.allow(rq))
    ran, errors = [], []

    @pawl.guard(session=session)
    def f(x):
        ran.append(x)

    def work(base):
        for i in range(20):
            try:
                f(base + i)
            except pawl.Denied:
                errors.append(base + i)

    threads = [threading.Thread(target=work, args=(n * 100,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert len(ran) == len(errors) == 80 and all(x % 2 == 0 for x in ran)
