"""`pawl top`: at a terminal, into a pipe, and with a pawld that is away. The frame itself is tests/unit/test_top.c's."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import live

ROW = {"session": "s_5", "agent": "\x1b[31mcrew", "ended": None, "decisions": 1, "reviews": 1,
       "watch": {"state": "on", "processes": {"used": 5, "limit": 50}, "cpu": {"used": "1.206999", "limit": "7200.5"}, "memory": 4096, "wall": {"used": "3", "limit": None}, "execs": 7, "kills": 0}}
STATUS = {"v": 1, "op": "status", "server": "pawld x", "mode": "enforce", "now": "2026-11-29T18:41:10Z", "sessions": {"live": 1}, "log": {"seq": 9, "state": "ok"}}


@pytest.fixture
def busy(fake):
    fake.script["session.list"] = lambda m: {"v": 1, "op": "session.list", "sessions": [ROW], "more": False}
    fake.script["status"] = lambda m: STATUS
    return fake


@pytest.mark.parametrize("words", [("x",), ("--interval",), ("--interval", "0"), ("--interval", "3601"), ("--interval", "1x"), ("--interval", "-1"),
                                   ("--once", "--tree"), ("--key", "k"), ("--interval", "99999999999999999999")])
def test_usage(words, person):
    done = person.run("top", *words)
    assert done.returncode == 2 and done.stderr and not done.stdout, done


def test_help(person):
    assert "usage: pawl top" in person.ok("top", "--help") and "top" in person.ok("--help")


def test_once(person, busy):
    out = person.ok("top", "--once")
    assert "s_5" in out and "5/50" in out and "\x1b" not in out and "\\u{1b}" in out and out.count("SESSION") == 1
    said = person.json("top", "--once", "--json")
    assert said["list"]["sessions"] == [ROW] and said["status"] == STATUS
    assert b"\x1b" not in person.run("top", "--once", "--json").stdout


def test_real_sessions(folder, person):
    with live.Live(folder=folder / "d") as d:
        d.start()
        s = d.session()
        out = person.ok("top", "--once")
        name = s.state()["session"]
        [row] = d.ask_operator("session.list")["sessions"]
        assert row["money"] == {"budget": "run", "used": "0", "remaining": "1000", "unit": "USD"}
        s.settle(s.decide("fixed")["decision"])
        assert re.search(rf"{name} +local +0.01 +999.99 ", person.ok("top", "--once"))
        assert name in out and "live sessions 1" in out
        s.close()
        assert name not in person.ok("top", "--once") and name in person.ok("top", "--once", "--all")


def test_nobody_there(person):
    done = person.run("top", "--once")
    assert done.returncode == 1 and b"is pawld running?" in done.stderr and not done.stdout


def test_into_a_pipe(person, busy):
    p = subprocess.Popen([live.PAWL, "top", "--json"], env=person.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        lines = [json.loads(p.stdout.readline()) for _ in range(2)]
        assert all(x["list"]["sessions"] for x in lines)
        busy.script["status"] = lambda m: {"v": 1, "op": "status", "error": {"code": "unavailable", "field": None, "message": "sta\x1brting"}}
        while "error" not in (line := json.loads(p.stdout.readline())):
            pass
        assert "rting" in line["error"] and "\x1b" not in line["error"]
        p.stdout.close()  # a reader that goes away ends it
        assert p.wait(20 * live.SLOW) == 1
    finally:
        p.kill()
        p.wait()


class Screen:
    def __init__(self, person, *words: str, rows: int = 24, columns: int = 100, term: str = "xterm") -> None:
        self.fd, far = pty.openpty()
        self.keep = far  # so that the terminal outlives the program
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.was = termios.tcgetattr(far)
        self.p = subprocess.Popen([live.PAWL, "top", *words], env={**person.env, "TERM": term}, stdin=far, stdout=far, stderr=far, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""

    def until(self, text: str, count: int = 1) -> None:
        end = time.monotonic() + 20 * live.SLOW
        while self.seen.count(text.encode()) < count:
            assert time.monotonic() < end, (text, self.seen)
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536)

    def ended(self) -> int:
        code = self.p.wait(20 * live.SLOW)
        while select.select([self.fd], [], [], 0.2)[0]:
            self.seen += os.read(self.fd, 65536)
        assert termios.tcgetattr(self.keep) == self.was
        return code

    def close(self) -> None:
        self.p.kill()
        self.p.wait()
        os.close(self.fd)
        os.close(self.keep)


@pytest.fixture
def screen(person, busy):
    open_ones = []

    def make(*words, **how):
        open_ones.append(Screen(person, *words, **how))
        return open_ones[-1]

    yield make
    for s in open_ones:
        s.close()


LEFT = "\x1b[?25h\x1b[?1049l"


@pytest.mark.parametrize("how", ["q", "\x03", "\x04", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_terminal_is_as_it_was(how, screen):
    s = screen()
    s.until("s_5")
    assert s.seen.startswith(b"\x1b[?1049h\x1b[?25l") and not termios.tcgetattr(s.keep)[3] & (termios.ICANON | termios.ECHO)
    if isinstance(how, str):
        os.write(s.fd, how.encode())
    else:
        s.p.send_signal(how)
    assert s.ended() == 0 and s.seen.endswith(LEFT.encode()) and s.seen.count(b"\x1b[?1049h") == 1


def test_it_is_drawn_again(screen):
    s = screen("--interval", "1")
    s.until("\x1b[H", 3)
    assert b"\n\n" not in s.seen.replace(b"\r", b"") and s.seen.count(b"\x1b[?1049h") == 1


def test_another_size_is_drawn_at_once(screen):
    s = screen("--interval", "3600", columns=100)
    s.until("STATE")
    fcntl.ioctl(s.keep, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    s.p.send_signal(signal.SIGWINCH)
    s.until("\x1b[H", 2)
    s.until("STATE", 2)
    assert all(len(x.replace(b"\r", b"").replace(b"\x1b[K", b"")) <= 40 for x in s.seen.rsplit(b"\x1b[H", 1)[1].split(b"\x1b[J")[0].split(b"\n"))


def test_stopped_and_continued(screen):
    s = screen("--interval", "3600")
    s.until("s_5")
    s.p.send_signal(signal.SIGTSTP)
    live.until("it is stopped", lambda: open(f"/proc/{s.p.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")
    assert termios.tcgetattr(s.keep) == s.was
    s.until(LEFT)
    s.p.send_signal(signal.SIGCONT)
    s.until("\x1b[?1049h", 2)
    s.until("s_5", 2)
    os.write(s.fd, b"q")
    assert s.ended() == 0


def test_a_pawld_that_goes_and_comes_again(screen, busy):
    s = screen()
    s.until("s_5")
    busy.script["status"] = lambda m: {"v": 1, "op": "status", "error": {"code": "unavailable", "field": None, "message": "starting"}}
    s.until("pawld does not answer")
    busy.script["status"] = lambda m: STATUS
    n = s.seen.count(b"s_5")
    s.until("s_5", n + 1)
    os.write(s.fd, b"q")
    assert s.ended() == 0


def test_a_dumb_terminal_gets_lines(screen):
    s = screen(term="dumb")
    s.until("SESSION", 2)
    assert b"\x1b" not in s.seen
    os.write(s.fd, b"\x03")
    s.p.wait(20 * live.SLOW)


# ---- the same numbers in `pawl sessions` and `pawl status`


def test_sessions_without_a_watch_have_no_columns_of_it(person, fake):
    fake.script["session.list"] = lambda m: {"v": 1, "op": "session.list", "sessions": [{"session": "s_1", "watch": None}], "more": False}
    assert "watch" not in person.ok("sessions")


def test_sessions_say_what_stopped_a_tree(person, busy):
    ended = {"session": "s_7", "watch": {**ROW["watch"], "state": "ended", "killed": {"why": "ended", "measured": 0, "limit": 0}}}
    stopped = {"session": "s_6", "watch": {**ROW["watch"], "state": "ended\x1b", "killed": {"why": "memory", "measured": 3 << 20, "limit": 2 << 20}}}
    busy.script["session.list"] = lambda m: {"v": 1, "op": "session.list", "sessions": [ROW, {"session": "s_1"}, stopped, ended], "more": False}
    lines = [line.split("\t") for line in person.ok("sessions").splitlines()]
    assert len({len(line) for line in lines}) == 1 and lines[0][8:] == ["watch", "processes", "cpu", "memory", "wall", "execs", "kills", "stopped"]
    assert lines[1][8:] == ["on", "5/50", "1.20s/2h00", "4K", "3s", "7", "0", "-"] and lines[2][8:] == ["-"] * 8
    assert lines[4][8] == "ended" and lines[4][15] == "-"
    assert lines[3][8] == "ended\\u{1b}" and lines[3][15] == "memory 3 MiB, limit 2 MiB"


def test_status_says_tier_and_probes(person, fake):
    fake.script["status"] = lambda m: {**STATUS, "watch": {"state": "on", "tier": "B", "held": ["deny_exec", "wall\x1b"], "missing": [], "trees": 2, "lost": 0},
                                       "probes": {"lsm": {"state": "off", "why": "EINVAL"}, "seccomp": {"state": "on", "why": ""}}}
    out = person.ok("status")
    for line in ("  tier: B", "  held: deny_exec, wall\\u{1b}", "  missing: -", "  lost: 0", "  lsm: off, EINVAL", "  seccomp: on"):
        assert line in out.splitlines(), (line, out)
