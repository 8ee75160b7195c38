"""A scripted launcher: speaks to the watch door (docs/watch.md) and holds a child that goes on to exec only when it is told to."""
from __future__ import annotations

import array
import json
import os
import socket
from typing import Any

import live

MAX = 64 << 10


def policy(watch: str = "", more: str = "") -> str:
    """live.POLICY with a watch section and whatever else goes before its rules."""
    return live.POLICY.replace("rules:\n", (f"watch: {{{watch}}}\n" if watch else "") + more + "rules:\n")


class Child:
    """A forked process that waits on a pipe, as the child of `pawl run` does, and then becomes `sh -c SCRIPT`."""

    def __init__(self, script: str) -> None:
        ready, self.go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.go)
                if os.read(ready, 1) != b"g":
                    os._exit(99)
                null = os.open("/dev/null", os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                os.execv("/bin/sh", ["sh", "-c", script])
            finally:
                os._exit(98)
        os.close(ready)
        self.pidfd = os.pidfd_open(self.pid)
        self.status: int | None = None

    def release(self) -> None:
        os.write(self.go, b"g")

    def wait(self) -> int:
        """Its wait status: os.WIFSIGNALED and friends."""
        if self.status is None:
            _, self.status = os.waitpid(self.pid, 0)
        return self.status

    def close(self) -> None:
        os.close(self.go)
        if self.status is None:
            try:
                os.kill(self.pid, 9)
            except ProcessLookupError:
                pass
            self.wait()
        os.close(self.pidfd)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Door:
    def __init__(self, path: str, timeout: float = 20) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)  # with a time limit it would not wait where many connect at once
        self.socket.settimeout(timeout)

    def send(self, body: bytes | dict[str, Any], *fds: int) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], more)

    def hear(self) -> dict[str, Any] | None:
        """None: the other end has closed."""
        data = self.socket.recv(MAX)
        return json.loads(data) if data else None

    def ask(self, body: bytes | dict[str, Any], *fds: int) -> dict[str, Any]:
        self.send(body, *fds)
        got = self.hear()
        assert got is not None, "the door closed the connection"
        return got

    def run(self, child: Child, **more: Any) -> dict[str, Any]:
        return self.ask({"v": 1, "op": "run", "agent": "local", **more}, child.pidfd)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
