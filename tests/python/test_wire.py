"""The transport alone: frames, retries, back-off, threads, loops and forks."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT, missing
from fake_daemon import Hangup

import pawl
from pawl import _door, _wire


def soon(seconds=2.0):
    return time.monotonic() + seconds


def ask(n):
    return json.dumps({"v": 1, "op": "decide", "call": str(n)}).encode()


def both(path, body, seconds=2.0):
    """Every test of one request runs on threads and on asyncio."""
    yield lambda: _wire.Transport(path).request(body, soon(seconds))
    yield lambda: asyncio.run(_wire.Transport(path).arequest(body, soon(seconds)))


# ---- the bytes, against a peer that shares nothing with the package ----


def test_bytes_of_a_request():
    a, b = socket.socketpair()
    stream = _wire.Stream(a)
    one, two = stream.frame(b"body"), stream.frame(b"")
    assert one[:9] == b"\x01\0\0\0\0\0\0\0\x08" and one[9] & 0x80 and one[13:] == b"body"
    assert two[:9] == b"\x01\0\0\0\0\0\0\0\x04" and two[9:13] != one[9:13]
    a.close()
    b.close()


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_reply_in_pieces(step):
    stream = _wire.Stream(socket.socket())
    number = stream.frame(b"q")[9:13]
    stale = b"\x01" + (7).to_bytes(8, "big") + b"\x80\0\0\0old"
    data = _wire.HELLO_REP + stale + b"\x01" + (9).to_bytes(8, "big") + number + b"reply"
    greeted, got = False, None
    for i in range(0, len(data), step):
        piece = data[i : i + step]
        if not greeted:
            greeted = stream.greeted(piece)
            got = stream.feed(b"") if greeted else None
        else:
            got = stream.feed(piece) or got
    assert got == b"reply"
    stream.sock.close()


@pytest.mark.parametrize("size", [0, 1, 65536, 1 << 20])
def test_sizes(fake, size):
    fake.on("echo", lambda rq: b"x" * size)
    body = json.dumps({"op": "echo", "pad": "y" * min(size, 900_000)}).encode()
    for run in both(fake.path, body):
        assert run() == b"x" * size


def test_reply_above_the_bound_is_refused(fake):
    fake.on("echo", lambda rq: b"x" * (_wire.MAX_REPLY + 1))
    for run in both(fake.path, b'{"op":"echo"}'):
        with pytest.raises(pawl.ProtocolError, match="too long"):
            run()


def test_independent_peer_pynng_serves_us(folder):
    """NNG's own REP socket, which shares no code with us, understands every byte."""
    try:
        import pynng
    except ImportError:
        missing("pynng, the independent check of the wire format")
    path = str(folder / "nng.sock")
    with pynng.Rep0(listen=f"ipc://{path}", recv_timeout=3000) as rep:

        def serve():
            for _ in range(40):
                rep.send(b"re:" + rep.recv())

        t = threading.Thread(target=serve)
        t.start()
        wire = _wire.Transport(path)
        for i in range(20):
            assert wire.request(b"%d" % i * (1 + 997 * i), soon()) == b"re:" + b"%d" % i * (1 + 997 * i)

        async def main():
            for i in range(20):
                assert await wire.arequest(b"a%d" % i, soon()) == b"re:a%d" % i

        asyncio.run(main())
        t.join(5)
        wire.close()


def test_independent_peer_pynng_asks_the_fake(fake):
    """And the scripted daemon speaks what NNG's REQ socket expects, so tests against it mean something."""
    try:
        import pynng
    except ImportError:
        missing("pynng, the independent check of the wire format")
    with pynng.Req0(dial=f"ipc://{fake.path}", recv_timeout=3000) as req:
        for i in range(5):
            req.send(ask(i))
            assert json.loads(req.recv())["call"] == str(i)


# ---- retry and back-off ----


def test_dead_pooled_stream_is_replaced(fake):
    wire = _wire.Transport(fake.path)
    wire.request(ask(1), soon())
    fake.kill()
    fake.start()
    assert json.loads(wire.request(ask(2), soon()))["call"] == "2"
    assert fake.streams == 2


def test_streams_are_reused(fake):
    wire = _wire.Transport(fake.path)
    for i in range(20):
        wire.request(ask(i), soon())
    asyncio.run(wire.arequest(ask(20), soon()))
    wire.request(ask(21), soon())
    assert fake.streams == 1  # threads and loops share them


def test_second_hang_up_is_final(fake):
    fake.on("decide", Hangup)
    for n, run in enumerate(both(fake.path, ask(1)), 1):
        with pytest.raises(ConnectionError):
            run()
        assert len(fake.ops("decide")) == 2 * n


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda p: None, FileNotFoundError),
        (lambda p: socket.socket(socket.AF_UNIX).bind(str(p)), ConnectionRefusedError),
        (lambda p: p.mkdir(), OSError),
        (lambda p: p.write_text(""), ConnectionRefusedError),
    ],
)
def test_no_daemon_fails_at_once(folder, make, error):
    path = folder / "x.sock"
    make(path)
    for run in both(str(path), ask(1)):
        began = time.monotonic()
        with pytest.raises(error):
            run()
        assert time.monotonic() - began < 1


def test_full_backlog_is_waited_for(folder):
    """EAGAIN means later. The listener takes nobody for a while, with more clients than its backlog holds."""
    path = str(folder / "full.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(0)
    crowd = []
    with pytest.raises(BlockingIOError):
        while True:
            s = socket.socket(socket.AF_UNIX)
            crowd.append(s)
            s.setblocking(False)
            s.connect(path)
    for run in both(path, ask(1), 0.2):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            run()
        assert 0.15 < time.monotonic() - began < 2

    def serve():
        time.sleep(0.1)
        for _ in range(len(crowd) - 1):
            listener.accept()[0].close()
        conn, _ = listener.accept()
        conn.sendall(_wire.HELLO_REP)
        conn.recv(8)
        frame = conn.recv(65536)
        conn.sendall(frame)  # an echo carries the right number
        conn.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    wire = _wire.Transport(path)
    assert wire.request(ask(1), soon()) == ask(1)
    wire.close()
    for s in (*crowd, listener):
        s.close()


def test_cold_burst_of_threads(fake):
    wire, got = _wire.Transport(fake.path), []

    def one(n):
        got.append(json.loads(wire.request(ask(n), soon(10)))["call"] == str(n))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert got == [True] * 100 and fake.overlaps == 0 and fake.peak < 100


def test_cold_burst_of_tasks(fake):
    wire = _wire.Transport(fake.path)

    async def main():
        return await asyncio.gather(*(wire.arequest(ask(n), soon(10)) for n in range(200)))

    assert [json.loads(r)["call"] for r in asyncio.run(main())] == [str(n) for n in range(200)]
    assert fake.overlaps == 0 and fake.peak < 100


def test_cancelled_request_closes_its_stream(fake):
    wire = _wire.Transport(fake.path)
    fake.on("slow", lambda rq: time.sleep(0.2) or b"slow")

    async def main():
        t = asyncio.create_task(wire.arequest(b'{"op":"slow"}', soon()))
        await asyncio.sleep(0.05)
        t.cancel()
        with pytest.raises(asyncio.CancelledError):
            await t
        return await wire.arequest(ask(1), soon())

    assert json.loads(asyncio.run(main()))["call"] == "1"
    assert fake.streams == 2


def test_timed_out_request_closes_its_stream(fake):
    """Its answer may still come; it must find nobody."""
    fake.on("slow", lambda rq: time.sleep(0.3) or b"slow")
    wire = _wire.Transport(fake.path)
    for n, run in enumerate(
        (
            lambda: wire.request(b'{"op":"slow"}', soon(0.1)),
            lambda: asyncio.run(wire.arequest(b'{"op":"slow"}', soon(0.1))),
        ),
        1,
    ):
        with pytest.raises(TimeoutError):
            run()
        assert not wire.pool().live and not wire.pool().idle and fake.streams == n


def test_no_descriptor_leaks(fake):
    fds = lambda: len(list(Path("/proc/self/fd").iterdir()))  # noqa: E731
    wire = _wire.Transport(fake.path)
    wire.request(ask(0), soon())
    fake.on("bad", lambda rq: Hangup)
    before = fds()
    for _ in range(30):
        with pytest.raises(OSError):
            wire.request(b'{"op":"bad"}', soon())
        with pytest.raises(FileNotFoundError):
            _wire.Transport(fake.path + "x").request(b"", soon())
    wire.close()
    time.sleep(0.1)
    assert fds() <= before


# ---- fork ----

FORKS = textwrap.dedent("""
    import asyncio, faulthandler, os, sys, threading, time, warnings
    warnings.simplefilter("ignore")  # Python itself warns of forks with threads from 3.12 on; that is the point here
    faulthandler.dump_traceback_later(25, exit=True)
    import pawl
    from pawl import _process

    session = pawl.Session.open(timeout=5.0)

    @pawl.guard(session=session)
    def f(who):
        return who

    @pawl.guard(session=session)
    async def af(who):
        return who

    stop, done, wrong = False, [0] * 8, []

    def busy(n):
        while not stop:
            try:
                if f(n) != n:
                    wrong.append(n)
                done[n] += 1
            except Exception as e:
                wrong.append(repr(e))

    threads = [threading.Thread(target=busy, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    while min(done) < 3:
        time.sleep(0.001)
    sys.setswitchinterval(1e-5)
    parent = _process.here().client
    for child in range(40):
        pid = os.fork()
        if pid == 0:
            try:
                ok = _process.here().client != parent
                ok = ok and f("child") == "child" and asyncio.run(af("loop")) == "loop"
                grand = os.fork()
                if grand == 0:
                    os._exit(0 if f("grandchild") == "grandchild" else 9)
                ok = ok and os.waitpid(grand, 0)[1] == 0
                session.close()  # the parent's: nothing may be sent
                os._exit(0 if ok else 8)
            except BaseException as e:
                print("child", child, repr(e), file=sys.stderr, flush=True)
                os._exit(7)
        end = time.monotonic() + 10
        while True:
            got, status = os.waitpid(pid, os.WNOHANG)
            if got:
                break
            if time.monotonic() > end:
                os.kill(pid, 9)
                sys.exit("child %d hangs" % child)
            time.sleep(0.002)
        if status:
            sys.exit("child %d ended with %d" % (child, status))
    stop = True
    for t in threads:
        t.join()
    sys.exit(repr(wrong[:3]) if wrong else 0)
""")


def test_fork_under_eight_busy_threads(fake):
    """A lock that another thread held at the fork stays held in the child: it must never be taken.

    And no stream is shared.
    """
    p = subprocess.run(
        [sys.executable, "-c", FORKS],
        env={**os.environ, "PYTHONPATH": str(ROOT / "hooks/python")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert p.returncode == 0, p.stderr[-3000:]
    clients = {}
    for rq in fake.ops("decide"):
        clients.setdefault(rq["client"], []).append(rq["call"])
    assert len(clients) == 1 + 40 + 40
    calls = [c for rows in clients.values() for c in rows]
    assert len(set(calls)) == len(calls)  # unique over all processes, or the second one would be in doubt
    assert len(fake.ops("session.open")) == 1 and len(fake.ops("session.close")) == 1
    assert fake.overlaps == 0
    settled = [s["decision"] for s in fake.ops("settle")]
    assert len(settled) == len(set(settled)) == len(calls)


def test_fork_while_this_very_lock_is_held(fake):
    """The sure form of the same: every lock of the old process is taken when the child is made."""
    session = pawl.Session.open(socket=fake.path, timeout=1.0)
    session.ask("f", {})
    from pawl import _keeper, _process

    pool, h = _door._transport(fake.path).pool(), _process.here()
    later = pawl.Session(socket=fake.path, timeout=1.0)
    held = [pool.lock, later._lock(), _keeper.keeper()._wake, h.lock]
    for lock in held:
        lock.acquire()
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        try:
            session.ask("f", {})
            later.ask("f", {})
            os._exit(0 if _process.here() is not h else 2)
        except BaseException:
            os._exit(1)
    for lock in held:
        lock.release()
    assert os.waitpid(pid, 0)[1] == 0
    session.ask("f", {})
    assert len({rq["client"] for rq in fake.ops("decide")}) == 2
    session.close()


@pytest.mark.parametrize("blind", ["pid", "hook"])
def test_fork_is_noticed_both_ways(monkeypatch, blind):
    """In a new pid namespace the number may be the same; C code may fork without Python's hooks."""
    from pawl import _process

    before = _process.here()
    if blind == "pid":
        monkeypatch.setattr(_process.os, "getpid", lambda: before.pid)
    pid = os.fork()
    if pid == 0:
        if blind == "hook":
            _process._here = before
        os._exit(0 if _process.here().client != before.client else 1)
    assert os.waitpid(pid, 0)[1] == 0 and _process.here() is before


def test_child_leaves_inherited_streams_alone(fake):
    wire = _door._transport(fake.path)
    wire.request(ask(0), soon())
    held = list(wire.pool().live)  # as the frame of another thread holds one that is in use
    inherited = {s.sock.fileno() for s in held}
    assert inherited
    pid = os.fork()
    if pid == 0:
        gone = all(not os.path.exists(f"/proc/self/fd/{fd}") for fd in inherited)
        os._exit(0 if gone and not wire.pool().live else 1)
    assert os.waitpid(pid, 0)[1] == 0
    wire.request(ask(1), soon())
    assert fake.streams == 1  # the parent's stream still works


def test_fork_of_a_running_loop(fake):
    """The child's copies close without touching the epoll set that it shares with the parent."""
    wire = _door._transport(fake.path)

    async def main():
        await wire.arequest(ask(0), soon())
        fake.on("slow", lambda rq: time.sleep(0.3) or b"slow")
        pending = asyncio.create_task(wire.arequest(b'{"op":"slow"}', soon()))
        await asyncio.sleep(0.05)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return await pending

    assert asyncio.run(main()) == b"slow"
