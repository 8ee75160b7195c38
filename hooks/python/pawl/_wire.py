"""nanomsg's REQ side over an AF_UNIX stream, in pure Python, for threads and for asyncio. docs/wire.md, "Transport".

Owns a pool of streams to one path. One request in flight a stream: a REP socket drops a reply without a word when its
reader lags. A stream that timed out or was cancelled is closed, never used again. Knows nothing of JSON, tokens or
verdicts.

A request whose stream died is sent once more on a new one, so it may arrive twice: the body must carry its own
identity.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable

from . import _process
from .errors import ProtocolError

HELLO_REQ = b"\x00SP\x00\x00\x30\x00\x00"
HELLO_REP = b"\x00SP\x00\x00\x31\x00\x00"
MAX_REPLY = (1 << 20) + (64 << 10)
MAX_PATH = 107
MAX_STREAMS = 64  # in flight at once, for threads and for each event loop
MAX_HELD = 256  # the same of requests that pawld holds for a person: those must not keep a report from going out
MAX_IDLE = 32
RESTART_GRACE = 1.0  # seconds a second attempt waits for a pawld that is being restarted
_HEAD = struct.Struct(">BQ")
_HIGH = 0x80000000


class StreamLost(ConnectionError):
    """The peer closed the stream before its reply was whole."""


class Stream:
    """The bytes of one stream, no I/O of its own: frame() what is sent, feed() what came."""

    __slots__ = ("sock", "_buf", "_greeted", "_id")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buf = bytearray()
        self._greeted = False
        self._id = random.getrandbits(31)

    def frame(self, body: bytes) -> bytes:
        self._id = (self._id + 1) & (_HIGH - 1)
        return b"".join((_HEAD.pack(1, len(body) + 4), (self._id | _HIGH).to_bytes(4, "big"), body))

    def greeted(self, data: bytes) -> bool:
        self._buf += data
        if not self._greeted and not HELLO_REP.startswith(bytes(self._buf[:8])):
            raise ProtocolError("the socket does not belong to a nanomsg REP peer")
        self._greeted = len(self._buf) >= 8
        if self._greeted:
            del self._buf[:8]
        return self._greeted

    def feed(self, data: bytes) -> bytes | None:
        """The reply to the last frame(), once it is whole. Replies with other ids are stale and are dropped."""
        buf = self._buf
        buf += data
        while len(buf) >= 9:
            kind, n = _HEAD.unpack_from(buf)
            if kind != 1 or not 4 <= n <= MAX_REPLY:
                raise ProtocolError("not a frame, or one that is too long")
            if len(buf) < 9 + n:
                return None
            number = int.from_bytes(buf[9:13], "big")
            body = bytes(buf[13 : 9 + n])
            del buf[: 9 + n]
            if number == self._id | _HIGH:
                return body
        return None


class Pool:
    """Streams of one process. A forked child makes a new one and only closes its copies of these."""

    def __init__(self) -> None:
        self.home = _process.here()
        self.lock = threading.Lock()
        self.slots = (threading.BoundedSemaphore(MAX_STREAMS), threading.BoundedSemaphore(MAX_HELD))
        self.loops: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[asyncio.Semaphore, asyncio.Semaphore]
        ] = weakref.WeakKeyDictionary()
        self.idle: list[Stream] = []
        self.live: set[Stream] = set()

    def take(self) -> Stream | None:
        with self.lock:
            return self.idle.pop() if self.idle else None

    def give(self, stream: Stream) -> None:
        with self.lock:
            if stream in self.live and len(self.idle) < MAX_IDLE:
                self.idle.append(stream)
                return
        self.drop(stream)

    def drop(self, stream: Stream) -> None:
        with self.lock:
            self.live.discard(stream)
        stream.sock.close()

    def add(self, stream: Stream) -> None:
        with self.lock:
            self.live.add(stream)

    def room(self, loop: asyncio.AbstractEventLoop, held: bool) -> asyncio.Semaphore:
        with self.lock:
            return self.loops.setdefault(loop, (asyncio.Semaphore(MAX_STREAMS), asyncio.Semaphore(MAX_HELD)))[held]

    def abandon(self) -> None:
        """In a forked child. No lock: whoever held it is not here. Closing a copy leaves the parent's stream."""
        for stream in list(self.live):
            stream.sock.close()


class Transport:
    """Safe for threads, event loops and forks. deadline is a time.monotonic() value.

    Raises TimeoutError, ProtocolError, or OSError with the kernel's reason."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._pool = Pool()

    def pool(self) -> Pool:
        pool = self._pool
        if pool.home is not _process.here():
            old, pool = pool, Pool()
            self._pool = pool  # two threads of a child may both come here: one pool is then used once and forgotten
            old.abandon()
        return pool

    def close(self) -> None:
        pool = self.pool()
        with pool.lock:
            streams, pool.idle = pool.idle, []
            pool.live.difference_update(streams)
        for stream in streams:
            stream.sock.close()

    # ---- threads ----

    def request(self, body: bytes, deadline: float, held: bool = False) -> bytes:
        """held: pawld may keep the answer back until a person has given it."""
        pool = self.pool()
        slots = pool.slots[held]
        if not slots.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise TimeoutError(f"{MAX_HELD if held else MAX_STREAMS} requests are already waiting")
        try:
            try:
                return self._attempt(pool, body, deadline, pool.take(), 0)
            except (StreamLost, BrokenPipeError, ConnectionResetError):
                return self._attempt(pool, body, deadline, None, RESTART_GRACE)
        finally:
            slots.release()

    def _attempt(self, pool: Pool, body: bytes, deadline: float, stream: Stream | None, grace: float) -> bytes:
        if stream is None:
            stream = self._connect(pool, deadline, time.monotonic() + grace)
        try:
            stream.sock.settimeout(_left(deadline))
            stream.sock.sendall(stream.frame(body))
            reply = None
            while reply is None:
                reply = stream.feed(_receive(stream.sock, deadline))
        except BaseException:
            pool.drop(stream)
            raise
        pool.give(stream)
        return reply

    def _connect(self, pool: Pool, deadline: float, patience: float) -> Stream:
        pause = 0.001
        while True:
            stream = Stream(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            pool.add(stream)
            try:
                stream.sock.settimeout(_left(deadline))
                stream.sock.connect(self._address())
                stream.sock.sendall(HELLO_REQ)
                while not stream.greeted(_receive(stream.sock, deadline)):
                    pass
                return stream
            except BaseException as e:
                pool.drop(stream)
                if not _try_later(e, patience):
                    raise
            time.sleep(min(pause, _left(deadline)))
            pause = _longer(pause)

    # ---- asyncio: the same steps on raw sockets. No transports: a forked child that drops an inherited one would take
    # its descriptor out of the epoll set that it shares with the parent ----

    async def arequest(
        self, body: bytes, deadline: float, on_send: Callable[[], None] | None = None, held: bool = False
    ) -> bytes:
        """on_send is called before the first byte goes out: from then on pawld may have heard of it."""
        pool = self.pool()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_left(deadline)), pool.room(loop, held):
            try:
                return await self._aattempt(pool, loop, body, pool.take(), 0, on_send)
            except (StreamLost, BrokenPipeError, ConnectionResetError):
                return await self._aattempt(pool, loop, body, None, RESTART_GRACE, on_send)

    async def _aattempt(
        self,
        pool: Pool,
        loop: asyncio.AbstractEventLoop,
        body: bytes,
        stream: Stream | None,
        grace: float,
        on_send: Callable[[], None] | None,
    ) -> bytes:
        if stream is None:
            stream = await self._aconnect(pool, loop, time.monotonic() + grace)
        try:
            stream.sock.setblocking(False)
            if on_send is not None:
                on_send()
            await loop.sock_sendall(stream.sock, stream.frame(body))
            reply = None
            while reply is None:
                reply = stream.feed(await _areceive(loop, stream.sock))
        except BaseException:  # also a timeout or a cancelled task
            pool.drop(stream)
            raise
        pool.give(stream)
        return reply

    async def _aconnect(self, pool: Pool, loop: asyncio.AbstractEventLoop, patience: float) -> Stream:
        pause = 0.001
        while True:
            stream = Stream(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            pool.add(stream)
            try:
                stream.sock.setblocking(False)
                stream.sock.connect(self._address())  # never in progress on AF_UNIX: done, refused, or EAGAIN
                await loop.sock_sendall(stream.sock, HELLO_REQ)
                while not stream.greeted(await _areceive(loop, stream.sock)):
                    pass
                return stream
            except BaseException as e:
                pool.drop(stream)
                if not _try_later(e, patience):
                    raise
            await asyncio.sleep(pause)  # bounded by the caller's timeout
            pause = _longer(pause)

    def _address(self) -> str:
        if len(os.fsencode(self.path)) > MAX_PATH:
            raise OSError(f"the path has {len(os.fsencode(self.path))} bytes and a socket's path at most {MAX_PATH}")
        return self.path


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no reply in time")
    return left


def _receive(sock: socket.socket, deadline: float) -> bytes:
    sock.settimeout(_left(deadline))
    data = sock.recv(65536)
    if not data:
        raise StreamLost("pawld closed the stream before it answered")
    return data


async def _areceive(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    data = await loop.sock_recv(sock, 65536)
    if not data:
        raise StreamLost("pawld closed the stream before it answered")
    return data


def _try_later(e: BaseException, patience: float) -> bool:
    """EAGAIN: the listen backlog is full. Absent or refusing: waited for only if it was there a moment ago."""
    if isinstance(e, BlockingIOError):
        return True
    gone = isinstance(e, (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError, StreamLost))
    return gone and time.monotonic() < patience


def _longer(pause: float) -> float:
    return min(pause * 2, 0.05) * random.uniform(0.8, 1.0)
