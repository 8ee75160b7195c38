"""@guard: ask, and only then run; settle when it has ended, however it ended.

The order is the invariant: arguments are encoded, the question is sent, the exact word `allow` comes back, then the
body is entered. Anything that raises on the way leaves the body unrun. A report that fails never changes what the
caller gets, nor does a result that cannot be read. What a plain function returns may be work that is still to come (an
awaitable, a generator): then the body goes on until that has ended.

The plain function sits in the closure of a closure and under no attribute: a `__wrapped__` would be the way around.
Python hides nothing from code that runs in the same process, so this stops accidents and tools, not an attacker inside.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, ParamSpec, TypeVar, overload

from ._client import Session
from ._money import Cost, Money
from ._question import check_tool
from ._run import Plan, Run

P = ParamSpec("P")
R = TypeVar("R")


# ---- the four manners of body. Each returns the function that callers get ----


def _ask(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], watched: bool = True) -> Run:
    question = plan.question(args, kwargs)
    session = plan.session()
    return Run(plan, session, session.ask(plan.tool, **question), watched)


async def _aask(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
    question = plan.question(args, kwargs)
    session = plan.session()
    return Run(plan, session, await session.aask(plan.tool, **question), False)


def _plain(plan: Plan, body: Callable[..., Any]) -> Callable[..., Any]:
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = _ask(plan, args, kwargs)
        try:
            result = body(*args, **kwargs)
        except BaseException as e:
            run.settle(run.raised(e))
            raise
        try:
            rest = _rest_of(run, result)
        except Exception:  # a type that will not say what it is
            rest = None
        if rest is None:
            run.returned(result)
            return result
        return rest

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    return guarded


def _rest_of(run: Run, result: Any) -> Any:
    """What a plain function's caller gets when the work is still to come; None when it is done.

    Looks at types alone: an instance's __class__ may be code. What is no native generator and no plain awaitable (an
    iterator, a context manager) comes back as it is, settled.
    """
    kind = type(result)
    if issubclass(kind, types.GeneratorType) and not inspect.isawaitable(result):
        return _settled_items(run, lambda: result)
    if issubclass(kind, types.AsyncGeneratorType):

        async def made() -> tuple[Run, AsyncGenerator[Any, Any]]:
            return run.unwatched(), result

        return _async_items(lambda args, kwargs: made())()
    if issubclass(kind, concurrent.futures.Future):
        result.add_done_callback(lambda f: _ended(run, f))
        return result
    if hasattr(kind, "_asyncio_future_blocking"):  # as asyncio.isfuture(); it runs whether or not anybody awaits it
        _when_done(run, result)
        return result
    if (issubclass(kind, types.GeneratorType) or hasattr(kind, "__await__")) and not hasattr(kind, "__aenter__"):
        return _rest(run.unwatched(), lambda: result)
    return None


def _when_done(run: Run, future: asyncio.Future[Any]) -> None:
    def add() -> None:
        future.add_done_callback(lambda f: _ended(run, f))

    loop = future.get_loop()
    if loop is asyncio._get_running_loop():
        add()
    else:
        loop.call_soon_threadsafe(add)


def _ended(run: Run, future: Any) -> None:
    """Settles the blocking way, as the plain function asked: its loop may be ending, and the caller is not yet told."""
    if future.cancelled():
        run.settle(run.raised(asyncio.CancelledError()))
        return
    # Not exception(), which would take asyncio's "exception was never retrieved" away from the program.
    e = future._exception if hasattr(future, "_exception") else future.exception()
    if e is not None:
        run.settle(run.raised(e))
    else:
        run.returned(future.result())


async def _rest(run: Run, body: Callable[[], Awaitable[Any]]) -> Any:
    try:
        async with run.limited():
            result = await body()
    except BaseException as e:
        await run.asettle(run.raised(e))
        raise
    await run.areturned(result)
    return result


def _async(plan: Plan, body: Callable[..., Any]) -> Callable[..., Any]:
    async def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = await _aask(plan, args, kwargs)
        return await _rest(run, lambda: body(*args, **kwargs))

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        return await call(args, kwargs)

    return guarded


def _generator(plan: Plan, body: Callable[..., Any]) -> Callable[..., Any]:
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]:
        run = _ask(plan, args, kwargs)
        return (yield from _settled_items(run, lambda: body(*args, **kwargs)))

    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from call(args, kwargs))

    return guarded


def _settled_items(run: Run, body: Callable[[], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    try:
        value = yield from _items(run, body())
    except BaseException as e:
        run.settle(run.raised(e))
        raise
    run.returned(run.last if value is None else value, hashed=False)
    return value


def _items(run: Run, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """`yield from`, which keeps the last item in sight (a model's usage comes with it)."""
    try:
        run.last = next(inner)
        while True:
            try:
                sent = yield run.last
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as e:
                run.last = inner.throw(e)
            else:
                run.last = inner.send(sent)
    except StopIteration as stop:
        return stop.value


def _async_generator(plan: Plan, body: Callable[..., Any]) -> Callable[..., Any]:
    # Nothing here is reachable but through the cells of `guarded`, and there through `start`.
    async def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Run, AsyncGenerator[Any, Any]]:
        run = await _aask(plan, args, kwargs)
        try:
            return run, body(*args, **kwargs)
        except BaseException as e:
            await run.asettle(run.raised(e))
            raise

    return _async_items(call)


def _async_items(
    start: Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[tuple[Run, AsyncGenerator[Any, Any]]]],
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run, inner = await start(args, kwargs)
        try:
            step = inner.__anext__()
            while True:
                try:
                    async with run.limited():
                        run.last = await step
                except StopAsyncIteration:
                    break
                try:
                    sent = yield run.last
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as e:
                    step = inner.athrow(e)
                else:
                    step = inner.asend(sent)
        except BaseException as e:
            await run.asettle(run.raised(e))
            raise
        await run.areturned(run.last, hashed=False)

    return guarded


# ---- dressing ----


def _resolved(annotation: Any, fn: Any) -> Any:
    """`from __future__ import annotations` leaves text that only the function's own module can read."""
    if isinstance(annotation, str):
        with contextlib.suppress(Exception):
            return eval(annotation, getattr(inspect.unwrap(fn), "__globals__", {}))
    return annotation


def _is_data(v: Any) -> bool:
    """Exact types, since an instance of a subclass can carry anything."""
    return v is None or type(v) in (bool, int, float, str, bytes) or (type(v) is tuple and all(map(_is_data, v)))


def _dress(guarded: Callable[..., Any], fn: Any, sig: inspect.Signature) -> None:
    """Name, doc, annotations and signature of fn, so that frameworks build the same schema; never fn itself.

    Of its attributes only plain data: the rest may hold it, as singledispatch's registry and many decorators do.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(fn, name, None)
        if type(value) is str:
            setattr(guarded, name, value)
    attributes = getattr(fn, "__dict__", None)
    if isinstance(attributes, dict):
        guarded.__dict__.update({k: v for k, v in attributes.items() if _is_data(v)})
    guarded.__annotations__ = {k: _resolved(v, fn) for k, v in getattr(fn, "__annotations__", {}).items()}
    params = [p.replace(annotation=_resolved(p.annotation, fn)) for p in sig.parameters.values()]
    guarded.__signature__ = sig.replace(  # type: ignore[attr-defined]
        parameters=params, return_annotation=_resolved(sig.return_annotation, fn)
    )


def _in_class(fn: Any) -> bool:
    """Written in a class body and not bound yet.

    Elsewhere a parameter named `cls` is an argument like any other, which policies must see.
    """
    outer = getattr(fn, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>") and not inspect.ismethod(fn)


def _apply(fn: Any, tool: str | None, how: dict[str, Any], static: bool = False) -> Any:
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_apply(fn.__func__, tool, how, isinstance(fn, staticmethod)))
    if isinstance(fn, property) or inspect.isclass(fn) or not callable(fn):
        what = "class" if inspect.isclass(fn) else type(fn).__name__
        raise TypeError(f"guard goes on functions and methods, not on a {what}")
    try:
        sig = inspect.signature(fn)
    except ValueError as e:
        raise TypeError(f"{fn!r} has no signature that Python can tell; guard a function that calls it") from e
    plan = Plan(getattr(fn, "__name__", "") if tool is None else tool, how, sig, not static and _in_class(fn))
    inner = fn if inspect.isroutine(fn) or isinstance(fn, functools.partial) else fn.__call__  # instances
    if inspect.isasyncgenfunction(inner):
        guarded = _async_generator(plan, fn)
    elif inspect.iscoroutinefunction(inner):
        guarded = _async(plan, fn)
    elif inspect.isgeneratorfunction(inner):
        guarded = _generator(plan, fn)
    else:
        guarded = _plain(plan, fn)
    _dress(guarded, fn, sig)
    return guarded


@overload
def guard(fn: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def guard(
    tool: str | None = None,
    *,
    budget: Money | None = None,
    max_repeat_calls: int | None = None,
    timeout_seconds: float | None = None,
    estimate: Cost | Callable[..., Cost | None] | None = None,
    kind: str = "tool",
    model: str | None = None,
    args: Callable[..., dict[str, Any]] | None = None,
    cost: Callable[[Any], Cost | None] | None = None,
    session: Session | None = None,
    wait: str | float | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def guard(
    tool: Any = None,
    *,
    budget: Money | None = None,
    max_repeat_calls: int | None = None,
    timeout_seconds: float | None = None,
    estimate: Any = None,
    kind: str = "tool",
    model: str | None = None,
    args: Callable[..., dict[str, Any]] | None = None,
    cost: Callable[[Any], Cost | None] | None = None,
    session: Session | None = None,
    wait: str | float | None = None,
) -> Any:
    """Ask pawld before each call; run it only when the answer is `allow`.

    tool              name in the policy; the function's own when left out
    budget            "0.50": what calls of this tool may cost in this session. Text, since a float cannot hold money
    max_repeat_calls  equal calls that may run
    timeout_seconds   async bodies are cancelled after it; plain ones cannot be stopped and are reported overdue
    estimate          expected cost of a call: "0.01", {"money": …, "tokens": …}, or a function of the call's arguments
    cost              function of the result that gives the real cost
    args              function of the call's arguments that gives the dict to judge, for types that have no JSON form
    kind, model       "tool", "llm" (with model=), "delegate", "http", "code"
    wait              "30s", or seconds: how long a person is waited for when one must look first. Left out: not at all
    session           a Session; else that of the `with` around the call, else the process's own

    budget, max_repeat_calls and timeout_seconds only narrow what the policy gives.
    """
    how = {
        "budget": budget,
        "max_repeat_calls": max_repeat_calls,
        "timeout_seconds": timeout_seconds,
        "estimate": estimate,
        "kind": kind,
        "model": model,
        "args": args,
        "cost": cost,
        "session": session,
        "wait": wait,
    }
    if tool is None or isinstance(tool, str):
        if tool is not None:
            check_tool(tool)
        return lambda fn: _apply(fn, tool, how)
    return _apply(tool, None, how)
