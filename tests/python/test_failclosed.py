"""Silence is no: the body runs on the exact word, in a well-formed reply to this very request, and on nothing else.

D15 (crash, time-out, garbage), D17 (ask first), S2 S3 (errors are not yes), S4 (no memory of failure),
S6 (every wrong spelling).
"""

import asyncio
import json
import os
import socket
import threading
import time

import pytest
from fake_daemon import FakeDaemon, Hang, Hangup, Late, Raw, Stale

import pawl
from pawl import _door

MANNERS = ["plain", "async", "generator", "async generator"]


def make(manner, session, ran, **how):
    """One guarded body of each manner, and a way to run it to its end."""
    if manner == "plain":

        @pawl.guard("work", session=session, **how)
        def body():
            ran.append(time.monotonic())

        return body
    if manner == "async":

        @pawl.guard("work", session=session, **how)
        async def abody():
            ran.append(time.monotonic())

        return lambda: asyncio.run(abody())
    if manner == "generator":

        @pawl.guard("work", session=session, **how)
        def gbody():
            ran.append(time.monotonic())
            yield 1

        return lambda: list(gbody())

    @pawl.guard("work", session=session, **how)
    async def agbody():
        ran.append(time.monotonic())
        yield 1

    async def drain():
        return [x async for x in agbody()]

    return lambda: asyncio.run(drain())


@pytest.fixture(params=MANNERS)
def manner(request):
    return request.param


def edit(**over):
    return lambda fake: lambda rq: fake.allow(rq, **over)


def without(key):
    return lambda fake: lambda rq: {k: v for k, v in fake.allow(rq).items() if k != key}


def raw(text):
    return lambda fake: lambda rq: text if isinstance(text, bytes) else text.encode()


def twice(fake):
    return lambda rq: json.dumps(fake.allow(rq)).replace('"verdict"', '"verdict":"deny","verdict"').encode()


# S6: each would be a yes to someone careless
NOT_ALLOW = {
    **{
        f"verdict {w!r}": edit(verdict=w)
        for w in (
            "ALLOW",
            "Allow",
            "allow ",
            " allow",
            "allow\n",
            "allow\u0000",
            "allowed",
            "permit",
            "ok",
            "yes",
            "true",
            "",
            "resume",
            "abort",
            "DENY",
            "deny ",
            "\uff41llow",
            "\u0430llow",
            True,
            False,
            1,
            0,
            None,
            ["allow"],
            {"allow": True},
            1.0,
        )
    },
    "no verdict": without("verdict"),
    "another op": edit(op="settle"),
    "no op": without("op"),
    "op null": edit(op=None),
    "another call": edit(call="c-0"),
    "no call": without("call"),
    "call null": edit(call=None),
    "version 2": edit(v=2),
    "version true": edit(v=True),
    "version text": edit(v="1"),
    "no version": without("v"),
    "no decision": without("decision"),
    "decision null": edit(decision=None),
    "decision odd": edit(decision="x_1"),
    "decision number": edit(decision=5),
    "verdict twice": twice,
    "allow and error": edit(error={"code": "unavailable", "field": None, "message": "m"}),
    "error empty": edit(error={}),
    "error text": edit(error="x"),
    "error false": edit(error=False),
    "error code 7": edit(error={"code": 7}),
    "empty": raw(""),
    "garbage": raw(b"\xff\xfe\x00"),
    "text": raw("allow"),
    "json text": raw('"allow"'),
    "a list": raw('["allow"]'),
    "null": raw("null"),
    "cut short": lambda fake: lambda rq: json.dumps(fake.allow(rq)).encode()[:-1],
    "NaN inside": raw('{"v":1,"op":"decide","x":NaN}'),
    "deep": raw("[" * 100_000),
    "bad utf-8": lambda fake: lambda rq: json.dumps(fake.allow(rq)).encode() + b"\xff",
    "two messages": lambda fake: lambda rq: json.dumps(fake.allow(rq)).encode() * 2,
    "not SP": lambda fake: lambda rq: Raw(b"HTTP/1.1 200 OK\r\n\r\n"),
    "endless frame": lambda fake: lambda rq: Raw(b"\x01" + b"\xff" * 8),
    "frame of 3": lambda fake: lambda rq: Raw(b"\x01" + b"\0" * 7 + b"\x03abc"),
    "hang-up": lambda fake: lambda rq: Hangup,
}


@pytest.mark.parametrize("name", NOT_ALLOW)
def test_s6_not_the_word(fake, session, name):
    ran = []
    fake.on("decide", NOT_ALLOW[name](fake))
    for manner in MANNERS:
        with pytest.raises(pawl.PawlError):
            make(manner, session, ran)()
    assert ran == [] and fake.ops("settle") == [] and len(fake.ops("decide")) >= len(MANNERS)


def test_the_word_itself_runs(fake, session, manner):
    ran = []
    make(manner, session, ran)()
    assert len(ran) == 1 and len(fake.settles()) == 1


CODES = [
    "malformed",
    "unauthenticated",
    "session_limit",
    "session_closed",
    "stale_session",
    "replay_conflict",
    "throttled",
    "log_unavailable",
    "unavailable",
    "a_code_from_later",
]
KINDS = {"malformed": pawl.Malformed, "log_unavailable": pawl.Unavailable, "unavailable": pawl.Unavailable}


@pytest.mark.parametrize("code", CODES)
def test_d15_error_reply(fake, session, manner, code):
    ran = []
    fake.on("decide", {"v": 1, "op": "decide", "error": {"code": code, "field": "args", "message": "because"}})
    with pytest.raises(KINDS.get(code, pawl.Denied), match="because"):
        make(manner, session, ran)()
    assert ran == [] and len(fake.ops("decide")) == 1  # refusals are not retried


def test_d15_time_out(fake, hasty, manner):
    ran = []
    fake.on("decide", Hang)
    began = time.monotonic()
    with pytest.raises(pawl.Unavailable, match="no answer within 0.3 s"):
        make(manner, hasty, ran)()
    assert ran == [] and 0.25 < time.monotonic() - began < 3


def test_d15_late_answer_is_never_taken(fake, hasty, manner):
    """The yes to a question that timed out must not become the answer to the next one."""
    ran = []
    fake.on("decide", lambda rq: Late(0.45, fake.allow(rq)))
    run = make(manner, hasty, ran)
    with pytest.raises(pawl.Unavailable):
        run()
    time.sleep(0.2)
    fake.on("decide", lambda rq: fake.deny(rq))
    with pytest.raises(pawl.Denied):
        run()
    assert ran == []


def test_reply_to_another_request_is_dropped(fake, hasty, manner):
    ran = []
    fake.on("decide", lambda rq: Stale(fake.allow(rq), fake.deny(rq)))
    with pytest.raises(pawl.Denied):
        make(manner, hasty, ran)()
    fake.on("decide", lambda rq: Stale(fake.allow(rq), Hang))
    with pytest.raises(pawl.Unavailable):
        make(manner, hasty, ran)()
    assert ran == []


def test_d17_slow_daemon_body_waits(fake, session, manner):
    ran, answered = [], []

    def slow(rq):
        time.sleep(0.2)
        assert ran == []
        answered.append(time.monotonic())
        return fake.allow(rq)

    fake.on("decide", slow)
    make(manner, session, ran)()
    assert len(ran) == 1 and ran[0] >= answered[0]


def test_s3_no_daemon(folder, manner):
    ran = []
    session = pawl.Session(socket=folder / "nobody.sock")
    with pytest.raises(pawl.Unavailable) as e:
        make(manner, session, ran)()
    assert ran == []
    text = str(e.value)
    assert (
        "nobody.sock" in text
        and "pawld" in text
        and "pawl init" in text
        and "PAWL_SOCKET" in text
        and "nothing was allowed" in text
    )


def listening(path):
    path.parent.mkdir(parents=True)
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(path))
    return s


def test_s3_message_names_the_path_that_was_tried(monkeypatch, folder):
    @pawl.guard
    def f():
        raise AssertionError("ran")

    monkeypatch.delenv("PAWL_SOCKET")
    monkeypatch.setenv("PAWL_DIR", str(folder))
    with pytest.raises(pawl.Unavailable, match=rf"{folder}/run/agent.sock \(PAWL_DIR\)"):
        f()


def test_where_pawld_is_looked_for(monkeypatch, folder):
    """The folder that `pawl init && pawld` take without options, and whose socket goes before it."""
    for name in ("PAWL_SOCKET", "PAWL_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_door, "RUN_SOCKET", str(folder / "machine" / "agent.sock"))
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert pawl.socket_path() == ("/var/lib/pawl/run/agent.sock", "the default folder")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert pawl.socket_path() == ("/h/.local/state/pawl/run/agent.sock", "the default folder")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the base directory rules say: ignored
    assert pawl.socket_path()[0] == "/h/.local/state/pawl/run/agent.sock"
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert pawl.socket_path() == ("/x/pawl/run/agent.sock", "the default folder")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "r"))  # no socket there
    assert pawl.socket_path() == ("/x/pawl/run/agent.sock", "the default folder")
    with listening(folder / "machine" / "agent.sock"):
        assert pawl.socket_path() == (str(folder / "machine" / "agent.sock"), "of this machine")
        with listening(folder / "r" / "pawl" / "agent.sock"):
            assert pawl.socket_path() == (str(folder / "r" / "pawl" / "agent.sock"), "XDG_RUNTIME_DIR")
            monkeypatch.setenv("PAWL_DIR", "/d")
            assert pawl.socket_path() == ("/d/run/agent.sock", "PAWL_DIR")
            monkeypatch.setenv("PAWL_SOCKET", "ipc:///s")
            assert pawl.socket_path() == ("/s", "PAWL_SOCKET")


def test_s4_daemon_that_comes_up_elsewhere(folder, monkeypatch):
    """The first call looked in one folder; then a socket appears that goes before it."""
    ran = []
    for name in ("PAWL_SOCKET", "PAWL_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(_door, "RUN_SOCKET", str(folder / "none"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    s = pawl.Session(timeout=0.5)
    with pytest.raises(pawl.Unavailable, match=r"the default folder"):
        make("plain", s, ran)()
    (folder / "pawl").mkdir()
    with FakeDaemon(str(folder / "pawl" / "agent.sock")):
        make("plain", s, ran)()
        s.close()
    assert len(ran) == 1


def test_nowhere_to_look_is_still_no(monkeypatch):
    for name in ("PAWL_SOCKET", "PAWL_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert pawl.socket_path() == ("/run/pawl/agent.sock", "of this machine")


def test_s4_daemon_started_late(folder, manner):
    """No failure is remembered: the first call after pawld appears works."""
    ran = []
    fake = FakeDaemon(str(folder / "late.sock"))
    run = make(manner, pawl.Session(socket=fake.path, timeout=0.5), ran)
    for _ in range(3):
        with pytest.raises(pawl.Unavailable):
            run()
    assert ran == []
    with fake:
        run()
        assert len(ran) == 1
        fake.kill()
        with pytest.raises(pawl.Unavailable):
            run()
        fake.start()
        run()
    assert len(ran) == 2


def test_killed_with_the_question_in_flight(fake, session, manner):
    ran = []

    def die(rq):
        fake.kill()
        return Hang

    fake.on("decide", die)
    with pytest.raises(pawl.Unavailable):
        make(manner, session, ran)()
    assert ran == []


def test_restart_in_mid_question_is_asked_again_with_the_same_ids(fake, session, manner):
    """Idempotent, so one more try is safe: the same call and client, byte for byte."""
    ran = []

    def die_once(rq):
        if len(fake.ops("decide")) == 1:
            fake.kill()
            threading.Timer(0.1, fake.start).start()
            return Hang
        return fake.allow(rq)

    fake.on("decide", die_once)
    make(manner, session, ran)()
    first, second = fake.ops("decide")
    assert first == second and len(ran) == 1


def test_only_one_retry(fake, session, manner):
    fake.on("decide", Hangup)
    with pytest.raises(pawl.Unavailable, match="closed the stream"):
        make(manner, session, [])()
    assert len(fake.ops("decide")) == 2


def test_peer_that_is_not_a_daemon(folder, manner):
    for hello in (b"\x00SP\x00\x00\x30\x00\x00", b"SSH-2.0-", b"\x00SP\x00\x00\x31\x00\x01"):
        fake = FakeDaemon(str(folder / "odd.sock"))
        fake.hello = hello
        with fake, pytest.raises(pawl.ProtocolError, match="REP"):
            make(manner, pawl.Session(socket=fake.path, timeout=0.5), [])()
        assert fake.requests == []  # no token was shown to it


@pytest.mark.parametrize(
    "reply",
    [
        {"session": "s_1", "token": "short"},
        {"session": "x", "token": "ab" * 32},
        {"token": "ab" * 32},
        {"session": 1, "token": 2},
    ],
)
def test_session_that_was_not_opened(fake, manner, reply):
    ran = []
    fake.on("session.open", {"v": 1, "op": "session.open", **reply})
    with pytest.raises(pawl.ProtocolError):
        make(manner, pawl.Session(socket=fake.path), ran)()
    assert ran == [] and fake.ops("decide") == []


def test_review_is_not_run(fake, session, manner):
    ran = []
    fake.on("decide", fake.review)
    with pytest.raises(pawl.ReviewPending) as e:
        make(manner, session, ran)()
    assert ran == [] and e.value.review == "r_7" and e.value.code is pawl.ReasonCode.RULE
    assert not isinstance(e.value, pawl.Denied)


def test_path_that_is_too_long(manner):
    with pytest.raises(pawl.Unavailable, match="107"):
        make(manner, pawl.Session(socket="/tmp/" + "x" * 110), [])()
