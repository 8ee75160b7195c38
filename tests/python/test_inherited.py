"""Under `pawl run`: the session comes by a descriptor, and nothing else will do in its place."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT
from fake_daemon import TOKEN

import pawl

ADD_SEALS, ALL = 1033, 0b1111


def handed(fake, seals=ALL, **over):
    """As daemon/cli/run.c leaves it; the descriptor."""
    fd = os.memfd_create("pawl-session", os.MFD_ALLOW_SEALING)
    row = {"session": "s_77", "token": "cd" * 32, "socket": fake.path, "agent": "coder"} | over
    os.write(fd, json.dumps({k: v for k, v in row.items() if v is not None}).encode())
    fcntl.fcntl(fd, ADD_SEALS, seals)
    return fd


@pytest.fixture
def run(fake, monkeypatch):
    fd = handed(fake)
    monkeypatch.setenv("PAWL_SESSION_FD", str(fd))
    monkeypatch.delenv("PAWL_SOCKET")
    yield fd
    os.close(fd)


@pawl.guard
def work(n: int = 1) -> int:
    return n


def test_guards_use_it(fake, run):
    assert work(3) == 3
    asked = fake.ops("decide")[0]
    assert (asked["session"], asked["token"]) == ("s_77", "cd" * 32)
    assert fake.ops("session.open") == []
    assert pawl.current_session().id == "s_77" and pawl.current_session().agent == "coder"
    assert "cd" * 8 not in repr(pawl.current_session())
    os.fstat(run)  # children need it too


def test_sessions_are_children_of_it(fake, run):
    with pawl.Session("coder", limits={"money": "25%"}) as s:
        work(1)
        opened = fake.ops("session.open")[0]
        assert (opened["parent"], opened["parent_token"]) == ("s_77", "cd" * 32)
        assert "root" not in opened and opened["limits"] == {"money": "25%"}
        assert fake.ops("decide")[0]["session"] == s.id != "s_77" and fake.ops("decide")[0]["token"] == TOKEN
    assert [r["session"] for r in fake.ops("session.close")] == [s.id]
    with pawl.default_session().child() as below:
        assert fake.ops("session.open")[1]["agent"] == "coder" and below.parent is pawl.default_session()


def test_never_closed_here(fake, run):
    with pawl.default_session() as s:
        s.close()
        work(1)
    asyncio.run(s.aclose())
    work(2)
    from pawl import _client

    _client._at_exit()
    assert fake.ops("session.close") == [] and len(fake.ops("decide")) == 2


PROGRAM = """
import os, sys
sys.path.insert(0, {path!r})
import pawl
@pawl.guard
def work(n): return n
work(1)
pid = os.fork()
if pid == 0:
    work(2)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
work(3)
"""


def test_after_a_fork_and_at_exit(fake, run):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(path=str(ROOT / "hooks" / "python"))], pass_fds=(run,), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [r["session"] for r in fake.ops("decide")] == ["s_77"] * 3 and fake.ops("session.close") == []


def test_a_closed_descriptor_is_said(fake, run):
    """subprocess closes what it is not told of."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(path=str(ROOT / "hooks" / "python"))], capture_output=True, text=True)
    assert done.returncode == 1 and "Unavailable" in done.stderr and "pass_fds=" in done.stderr
    assert fake.requests == []


BAD = {
    "not sealed": lambda fake: handed(fake, seals=0),
    "writable": lambda fake: handed(fake, seals=ALL & ~8),
    "no session": lambda fake: handed(fake, session=None),
    "session": lambda fake: handed(fake, session="s_1; rm"),
    "token": lambda fake: handed(fake, token="xyz"),
    "no socket": lambda fake: handed(fake, socket=None),
    "relative socket": lambda fake: handed(fake, socket="a.sock"),
    "too long": lambda fake: handed(fake, agent="x" * 5000),
    "another file": lambda fake: os.open("/etc/passwd", os.O_RDONLY),
    "a device": lambda fake: os.open("/dev/null", os.O_RDONLY),
    "no descriptor": lambda fake: 9999,
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_descriptor_fails_closed(fake, monkeypatch, what):
    """PAWL_SOCKET names a pawld that would say yes: it is not asked."""
    fd = BAD[what](fake)
    monkeypatch.setenv("PAWL_SESSION_FD", str(fd))
    for call in (work, lambda: pawl.Session.open(), lambda: pawl.Session.open(parent=pawl.default_session()), lambda: asyncio.run(pawl.Session.aopen())):
        with pytest.raises(pawl.Unavailable, match="PAWL_SESSION_FD"):
            call()
    assert fake.requests == []


@pytest.mark.parametrize("text", ["", "x", "-1", "3 ", "0x3", "99999999999999999999", "\u0663"])
def test_a_number_that_is_none(fake, monkeypatch, text):
    monkeypatch.setenv("PAWL_SESSION_FD", text)
    with pytest.raises(pawl.Unavailable, match="PAWL_SESSION_FD"):
        work()
    assert fake.requests == []


def test_hello_asks_there(fake, run):
    assert pawl.socket_path() == (fake.path, "PAWL_SESSION_FD")
    pawl.hello()


def test_a_socket_that_is_named_is_another_matter(fake, run):
    with pawl.Session(socket=fake.path):
        assert "parent" not in fake.ops("session.open")[0]
