"""Sessions and what is raised about them."""

import asyncio
import concurrent.futures
import copy
import gc
import logging
import os
import pickle
import subprocess
import sys
import time
import weakref

import pytest
from conftest import ROOT

import pawl


def test_open_says_who_and_where(fake, folder):
    with pawl.Session.open(
        "local",
        root=folder,
        labels={"run": "42"},
        limits={"money": "2", "tokens": 10, "calls": 3, "time": 90},
        socket=fake.path,
    ) as s:
        rq = fake.ops("session.open")[0]
        assert rq == {
            "v": 1,
            "op": "session.open",
            "agent": "local",
            "root": str(folder),
            "labels": {"run": "42"},
            "limits": {"money": "2", "tokens": 10, "calls": 3, "time": "90s"},
        }
        assert s.id.startswith("s_") and "ab" * 8 not in repr(s)
        assert fake.ops("session.close") == []
    assert fake.ops("session.close")[0]["session"] == s.id
    s.close()
    assert len(fake.ops("session.close")) == 1


def test_root_is_absolute_and_the_working_folder_by_default(fake, monkeypatch, folder):
    monkeypatch.chdir(folder)
    for root, want in ((None, folder), ("sub", folder / "sub")):
        pawl.Session.open(root=root, socket=fake.path).close()
        assert fake.ops("session.open")[-1]["root"] == str(want)


@pytest.mark.parametrize(
    "limits, error",
    [({"money": 0.5}, TypeError), ({"mony": "1"}, ValueError), ({"calls": -1}, ValueError), ({"time": 0}, ValueError)],
)
def test_wrong_limits(limits, error):
    with pytest.raises(error):
        pawl.Session(limits=limits)


def test_with_chooses_the_session(fake):
    @pawl.guard
    def f():
        pass

    def asked_by():
        f()
        return fake.ops("decide")[-1]["session"]

    own = asked_by()
    assert asked_by() == own and len(fake.ops("session.open")) == 1
    with pawl.Session() as a:
        assert asked_by() == a.id != own
        with pawl.Session() as b:
            assert asked_by() == b.id
        assert asked_by() == a.id
    assert asked_by() == own
    with pytest.raises(pawl.Denied, match="closed") as e:
        a.ask("f", {})
    assert e.value.code is pawl.ReasonCode.SESSION_CLOSED


def test_async_with_and_tasks(fake):
    @pawl.guard
    async def f():
        await asyncio.sleep(0)

    async def one():
        async with pawl.Session() as s:
            await f()
            await asyncio.create_task(f())
            await asyncio.to_thread(pawl.current_session)
            return s.id

    async def main():
        return await asyncio.gather(*(one() for _ in range(5)))

    ids = asyncio.run(main())
    assert len(set(ids)) == 5
    for i in ids:
        assert sum(r["session"] == i for r in fake.ops("decide")) == 2
    assert len(fake.ops("session.close")) == 5


def test_with_does_not_reach_a_thread_pool_and_says_so(fake):
    """Limits must not fall away in silence because the work moved to another thread."""
    ran = []

    @pawl.guard
    def f(x):
        ran.append(x)

    with pawl.Session(limits={"calls": 1}) as s, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match="session="):
            pool.submit(f, 1).result()
        assert ran == []
        pool.submit(pawl.guard("g", session=s)(ran.append), 2).result()
    assert ran == [2] and fake.ops("decide")[-1]["session"] == s.id


def test_first_use_from_many_threads_opens_once(fake):
    @pawl.guard
    def f(x):
        return x

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(f, range(64)))
    assert len(fake.ops("session.open")) == 1


def test_ended_session_is_not_replaced_in_silence(fake, session):
    ran = []

    @pawl.guard(session=session)
    def f():
        ran.append(1)

    for code in ("stale_session", "session_closed", "unauthenticated"):
        fake.on("decide", {"v": 1, "op": "decide", "error": {"code": code, "field": None, "message": "gone"}})
        with pytest.raises(pawl.Denied) as e:
            f()
        assert e.value.code == code and "pen a new Session" in str(e.value)
    assert ran == [] and len(fake.ops("session.open")) == 1


def test_session_survives_a_restart(fake, session):
    @pawl.guard(session=session)
    def f():
        return 1

    f()
    fake.kill()
    fake.start()
    assert (
        f() == 1
        and len(fake.ops("session.open")) == 1
        and fake.ops("decide")[0]["session"] == fake.ops("decide")[1]["session"]
    )


def beats(fake, least, seconds=5.0):
    end = time.monotonic() + seconds
    while len(fake.ops("heartbeat")) < least and time.monotonic() < end:
        time.sleep(0.01)
    return len(fake.ops("heartbeat"))


def test_heartbeat(fake):
    fake.lease = "300ms"
    began = time.monotonic()
    s = pawl.Session.open(socket=fake.path)
    assert beats(fake, 3) >= 3 and time.monotonic() - began > 0.25  # one each third of the lease
    assert {rq["session"] for rq in fake.ops("heartbeat")} == {s.id}
    s.close()
    n = len(fake.ops("heartbeat"))
    assert beats(fake, n + 2, 0.3) <= n + 1  # one may have been on its way


def test_any_message_is_a_heartbeat(fake):
    fake.lease = "1500ms"
    s = pawl.Session.open(socket=fake.path)
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        s.ask("f", {})
        time.sleep(0.02)
    assert fake.ops("heartbeat") == []
    s.close()


def test_heartbeat_stops_when_the_session_is_gone(fake, caplog):
    fake.lease = "150ms"
    fake.on(
        "heartbeat",
        {"v": 1, "op": "heartbeat", "error": {"code": "stale_session", "field": None, "message": "too late"}},
    )
    s = pawl.Session.open(socket=fake.path)
    with caplog.at_level(logging.WARNING, "pawl"):
        assert beats(fake, 2, 0.4) == 1
    assert "has ended" in caplog.text
    s.close()
    assert fake.ops("session.close") == []


def test_heartbeat_survives_silence(fake):
    fake.lease = "150ms"
    s = pawl.Session.open(socket=fake.path)
    fake.kill()
    time.sleep(0.2)
    n = len(fake.ops("heartbeat"))
    fake.start()
    assert beats(fake, n + 1) > n
    s.close()


def test_dropped_session_is_not_kept_alive(fake):
    fake.lease = "150ms"
    s = pawl.Session.open(socket=fake.path)
    assert beats(fake, 2) >= 2
    del s
    gc.collect()
    n = len(fake.ops("heartbeat"))
    assert beats(fake, n + 2, 0.4) <= n + 1


def test_keeper_holds_nothing_while_asleep(fake):
    held = pawl.Session.open(socket=fake.path)
    time.sleep(0.1)  # it has been looked at, and the next beat is far off
    s = weakref.ref(held)
    del held
    end = time.monotonic() + 3
    while s() is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert s() is None


def test_closed_at_exit(fake):
    code = "import pawl\ns = pawl.Session.open()\nf = pawl.guard('f')(lambda: 1)\nf()\nprint(s.id)"
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "hooks/python")},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert out.returncode == 0 and out.stderr == ""
    assert len(fake.ops("session.open")) == 2 and len(fake.ops("session.close")) == 2


def test_exit_without_daemon_is_quick_and_quiet(fake):
    code = "import pawl, sys\npawl.Session.open()\nsys.stdin.readline()"
    p = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "hooks/python")},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not fake.ops("session.open"):
        time.sleep(0.01)
    fake.kill()
    _, err = p.communicate(b"\n", timeout=5)
    assert p.returncode == 0 and err == b""


def test_low_level_ask_and_settle(fake, session):
    permit = session.ask("f", {"x": 1}, call="mine-1", estimate="0.1")
    assert permit.call == "mine-1" and fake.ops("decide")[0]["call"] == "mine-1"
    got = session.settle(permit, "not_run", cost={"money": "0"}, duration=1.5)
    assert got["outcome"] == "not_run" and fake.ops("settle")[0]["duration"] == "1500ms"
    with pytest.raises(ValueError, match="outcome"):
        session.settle(permit, "fine")

    async def main():
        permit = await session.aask("f", {})
        await session.asettle(permit)
        return await session.astate()

    assert asyncio.run(main())["op"] == "session.state" and session.state()["v"] == 1
    assert pawl.hello(fake.path)["op"] == "hello"


# ---- exceptions ----


def caught(fake, session, reply):
    fake.on("decide", reply)
    with pytest.raises(pawl.PawlError) as e:
        session.ask("page.fetch", {})
    return e.value


def test_denied_says_what_to_change(fake, session):
    def reply(rq):
        return fake.deny(
            rq,
            "budget",
            rule="run",
            message="run has 0.001 USD left of 5 USD; this call needs 0.002",
            counter="4.999",
            limit="5",
            unit="USD",
        ) | {
            "remaining": {
                "run": {
                    "used": "4.999",
                    "remaining": "0.001",
                    "limit": "5",
                    "unit": "USD",
                    "reset_at": "2026-11-30T00:00:00.000000000Z",
                }
            },
            "retry_after": "3s",
        }

    e = caught(fake, session, reply)
    assert isinstance(e, pawl.Denied)
    assert (e.code, e.rule, e.counter, e.limit, e.unit, e.tool, e.retry_after) == (
        pawl.ReasonCode.BUDGET,
        "run",
        "4.999",
        "5",
        "USD",
        "page.fetch",
        "3s",
    )
    assert (
        e.decision.startswith("d_")
        and e.reset_at == "2026-11-30T00:00:00.000000000Z"
        and e.remaining["run"]["remaining"] == "0.001"
    )
    for words in (
        "page.fetch",
        "run has 0.001 USD left",
        "budget",
        "rule run",
        "4.999 of 5 USD",
        "resets 2026-11-30",
        "retry after 3s",
        e.decision,
        "Raise the limit",
    ):
        assert words in str(e), words


def test_exceptions_cross_processes(fake, session):
    errors = [
        caught(fake, session, lambda rq: fake.deny(rq, "loop_repeat", counter="3", limit="3", unit="calls")),
        caught(fake, session, fake.review),
        caught(fake, session, b"garbage"),
        caught(
            fake, session, {"v": 1, "op": "decide", "error": {"code": "malformed", "field": "args", "message": "m"}}
        ),
    ]
    for e in errors:
        for twin in (pickle.loads(pickle.dumps(e)), copy.copy(e)):
            kept = {k: v for k, v in e.__dict__.items() if k != "_asked"}  # a held call: session and token stay here
            assert type(twin) is type(e) and str(twin) == str(e) and twin.__dict__ == kept


def test_code_of_a_newer_pawld_stays_text(fake, session):
    e = caught(fake, session, lambda rq: fake.deny(rq, "phase_of_moon"))
    assert e.code == "phase_of_moon" and "phase_of_moon" in str(e)


def test_log_unavailable_has_no_entry(fake, session):
    e = caught(fake, session, lambda rq: fake.deny(rq, "log_unavailable") | {"decision": None, "log": None})
    assert isinstance(e, pawl.Denied) and e.code == "log_unavailable" and e.decision is None


@pytest.mark.parametrize(
    "reply",
    [
        {"reason": None},
        {"reason": {}},
        {"reason": {"code": 5, "message": [], "rule": {}}},
        {"remaining": []},
        {"remaining": {"r": 3}},
    ],
)
def test_poor_refusal_is_still_a_refusal(fake, session, reply):
    assert isinstance(caught(fake, session, lambda rq: fake.deny(rq) | reply), pawl.Denied)


def test_messages_cannot_move_the_cursor(fake, session):
    e = caught(fake, session, lambda rq: fake.deny(rq, "rule", message="a\x1b[2Jb\r\n\u202ec", rule="r\x07"))
    assert str(e).isprintable() and "\\x1b" in str(e) and "\\u202e" in str(e)


def test_limits_ignored_is_said(fake, session, caplog):
    fake.on("decide", lambda rq: fake.allow(rq, limits_ignored=True))
    session.ask("f", {})
    assert "looser" in caplog.text
