"""The client against the real pawld: the paths that a scripted one can only pretend."""

import asyncio
import concurrent.futures
import os
import shutil
import signal
import subprocess

import pytest

import pawl
from pawl import _door


def test_allow_deny_review(real):
    ran = []

    @pawl.guard("work")
    def work(x):
        ran.append(x)
        return x

    @pawl.guard("forbidden")
    def forbidden():
        ran.append("no")

    @pawl.guard("risky")
    def risky():
        ran.append("no")

    @pawl.guard("unheard.of")
    def unheard():
        ran.append("no")

    with pawl.Session() as s:
        assert work(1) == 1
        with pytest.raises(pawl.Denied) as e:
            forbidden()
        assert e.value.code is pawl.ReasonCode.RULE and e.value.rule == "never" and e.value.decision
        with pytest.raises(pawl.ReviewPending) as held:
            risky()
        assert held.value.review.startswith("r_")
        with pytest.raises(pawl.Denied) as e:
            unheard()
        assert e.value.code is pawl.ReasonCode.DEFAULT
        state = s.state()
        assert state["session"] == s.id and state["executions"] == 1 and state["open"] == []
    assert ran == [1]


def test_b01_budget_under_a_thread_pool(real):
    """1 USD at 0.1 a call: ten run, however many ask at once."""
    ran = []
    with pawl.Session() as s:

        @pawl.guard("paid", session=s)
        def paid(n):
            ran.append(n)

        def one(n):
            try:
                paid(n)
            except pawl.Denied as e:
                return e
            return None

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            denied = [e for e in pool.map(one, range(30)) if e]
    assert len(ran) == 10 and len(denied) == 20
    assert {e.code for e in denied} == {pawl.ReasonCode.BUDGET} and denied[0].limit == "1" and denied[0].unit == "USD"


def test_decorators_own_limits(real):
    ran = []

    @pawl.guard("work", max_repeat_calls=2)
    def work(x):
        ran.append(x)

    @pawl.guard("unpriced", budget="0.50", estimate="0.2", cost=lambda r: "0.2")
    def spend(n):
        ran.append(n)

    with pawl.Session():
        work("same")
        work("same")
        with pytest.raises(pawl.Denied) as e:
            work("same")
        assert e.value.code is pawl.ReasonCode.LOOP_REPEAT
        work("other")
        spend(1)
        spend(2)
        with pytest.raises(pawl.Denied) as e:
            spend(3)
        assert e.value.code is pawl.ReasonCode.BUDGET and e.value.rule == "@guard"
    assert ran == ["same", "same", "other", 1, 2]


def test_cancelled_at_any_moment_leaves_nothing_open(real):
    ran, got = [], {"done": 0, "cancelled": 0}

    @pawl.guard("work")
    async def work(i):
        ran.append(i)
        await asyncio.sleep(0.001)

    async def main():
        async with pawl.Session() as s:
            await work(-1)
            for i in range(100):
                task = asyncio.create_task(work(i))
                await asyncio.sleep(i * 0.00005)
                task.cancel()
                try:
                    await task
                    got["done"] += 1
                except asyncio.CancelledError:
                    got["cancelled"] += 1
            for _ in range(100):  # who is cancelled while settling does not wait for it
                if not (left := (await s.astate())["open"]):
                    break
                await asyncio.sleep(0.01)
            assert left == [] and s.settle_failures == 0

    asyncio.run(main())
    assert got["cancelled"] > 10 and len(ran) == len(set(ran))


def test_every_manner_settles(real):
    @pawl.guard("slow", timeout_seconds=0.1)
    async def slow():
        await asyncio.sleep(5)

    @pawl.guard("slow", timeout_seconds=0.01)
    def overdue():
        import time

        time.sleep(0.05)

    @pawl.guard("stream")
    def stream():
        yield 1
        yield 2

    @pawl.guard("work")
    def fails():
        raise ValueError("x")

    with pawl.Session() as s:
        with pytest.raises(TimeoutError):
            asyncio.run(slow())
        overdue()
        assert list(stream()) == [1, 2]
        next(stream())
        with pytest.raises(ValueError):
            fails()
        assert s.settle_failures == 0 and s.state()["open"] == []


def test_every_encoded_type_is_accepted(real):
    import datetime
    import uuid
    from decimal import Decimal
    from pathlib import Path

    @pawl.guard("work")
    def work(**values):
        return len(values)

    with pawl.Session():
        assert (
            work(
                a=b"\xff",
                b=Path("x"),
                c=Decimal("0.1"),
                d=datetime.datetime.now(datetime.UTC),
                e=uuid.uuid4(),
                f={2, 1},
                g=(1.5, -0.0, 1e300),
                h=2**63 - 1,
                i="é\u2028",
                j=[[]],
                k=None,
            )
            == 11
        )


def test_killed_and_restarted(real):
    """The session is in the log, so it goes on; what was spent stays spent; in between nothing runs."""
    ran = []
    s = pawl.Session.open(timeout=1.0)

    @pawl.guard("paid", session=s)
    def paid(n):
        ran.append(n)

    for n in range(4):
        paid(n)
    real.stop(signal.SIGKILL)
    with pytest.raises(pawl.Unavailable):
        paid(99)
    real.start()
    for n in range(4, 10):
        paid(n)
    with pytest.raises(pawl.Denied):
        paid(10)
    assert ran == list(range(10))
    s.close()


def test_same_call_same_answer(real):
    with pawl.Session() as s:
        first = s.ask("work", {"x": 1}, call="one")
        again = s.ask("work", {"x": 1}, call="one")
        assert first == again  # log entry and all
        s.settle(first)
        with pytest.raises(pawl.Denied) as e:
            s.ask("work", {"x": 1}, call="one")
        assert e.value.code is pawl.ReasonCode.ALREADY_SETTLED


def test_closed_session(real):
    s = pawl.Session.open()
    s.close()
    s._ended = None  # what another process with this token would see
    with pytest.raises(pawl.Denied) as e:
        s.ask("work", {})
    assert e.value.code in ("session_closed", "unauthenticated")
    with pytest.raises(pawl.Denied) as e:
        pawl.Session.open(agent="somebody")
    assert e.value.code is pawl.ReasonCode.UNAUTHENTICATED


def test_unconfigured(binaries, folder, monkeypatch):
    """`pawl init`, `pawld`, and a guard that nobody told a path. Root's folder is the machine's, so root plays another user here."""
    home, user = folder / "h", os.geteuid() or 65534
    home.mkdir()
    folder.chmod(0o755)  # what only root may enter is copied to where the other user can
    for name in ("pawl", "pawld"):
        shutil.copy(binaries / name, folder / name)
    who = {}
    if os.geteuid() == 0:
        os.chown(home, user, user)
        who = {"user": user, "group": user, "extra_groups": []}
    for name in ("PAWL_SOCKET", "PAWL_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    run = {"cwd": "/", "stdin": subprocess.DEVNULL, "text": True, **who}
    subprocess.run([folder / "pawl", "init"], check=True, capture_output=True, timeout=20, **run)
    daemon = subprocess.Popen([folder / "pawld"], stderr=subprocess.PIPE, **run)
    try:
        assert daemon.stderr is not None
        assert any("ready" in line for line in iter(daemon.stderr.readline, ""))
        status = subprocess.run([folder / "pawl", "status"], capture_output=True, timeout=20, **run)
        with monkeypatch.context() as m:
            m.setattr(os, "geteuid", lambda: user)
            m.setattr(_door, "RUN_SOCKET", str(folder / "none"))

            @pawl.guard("nobody.allows.this")
            def f():
                raise AssertionError("ran")

            with pawl.Session() as s, pytest.raises(pawl.Denied) as e:
                f()
        log = subprocess.run([folder / "pawl", "log", "verify"], capture_output=True, timeout=20, **run)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=20)
    assert e.value.decision and s.id  # a verdict of the starter policy, with an entry
    assert status.returncode == 0 and "server: pawld" in status.stdout
    assert log.returncode == 10, log.stdout + log.stderr
    assert (home / ".local/state/pawl/entry.vkey").exists()
