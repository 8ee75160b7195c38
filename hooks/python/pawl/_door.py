"""Which socket, how long to wait at it, and what silence means.

Owns the transports of this process, one a path, shared by all sessions. Knows ops and replies, not sessions.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Any

from . import _inherited, _proto, _wire
from .errors import ProtocolError, Unavailable

TIMEOUT = 5.0  # seconds for one question
RUN_SOCKET = "/run/pawl/agent.sock"

_transports: dict[str, _wire.Transport] = {}


def home_dir() -> str | None:
    """The folder that `pawl init` and pawld take when nobody names one: the rule of daemon/base/home.c."""
    folder = os.environ.get("PAWL_DIR")
    if folder:
        return folder
    if os.geteuid() == 0:
        return "/var/lib/pawl"
    state, home = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if state.startswith("/"):
        return os.path.join(state, "pawl")
    return os.path.join(home, ".local", "state", "pawl") if home.startswith("/") else None


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def socket_path() -> tuple[str, str]:
    """Where pawld is looked for, and which rule said so."""
    named = os.environ.get("PAWL_SOCKET")
    if named:
        return named.removeprefix("ipc://"), "PAWL_SOCKET"
    if _inherited.named():
        return _inherited.read().socket, _inherited.VARIABLE
    folder = home_dir()
    if os.environ.get("PAWL_DIR") and folder:
        return os.path.join(folder, "run", "agent.sock"), "PAWL_DIR"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and _is_socket(path := os.path.join(runtime, "pawl", "agent.sock")):
        return path, "XDG_RUNTIME_DIR"
    if folder is None or _is_socket(RUN_SOCKET):  # a pawld of the whole machine, whose agents are other users
        return RUN_SOCKET, "of this machine"
    return os.path.join(folder, "run", "agent.sock"), "the default folder"


def _transport(path: str) -> _wire.Transport:
    return _transports.get(path) or _transports.setdefault(path, _wire.Transport(path))


def _leave_streams() -> None:
    for t in list(_transports.values()):
        t.pool()  # sees that this is another process now


os.register_at_fork(after_in_child=_leave_streams)


class Door:
    """One socket and how long to wait at it."""

    def __init__(self, socket: str | os.PathLike[str] | None, timeout: float) -> None:
        self._given = socket is not None
        if socket is None:
            self.path, self.path_from = socket_path()
        else:
            self.path, self.path_from = os.fspath(socket).removeprefix("ipc://"), "socket="
        self.timeout = timeout

    def _aim(self, op: str) -> None:
        """Looks again while no session binds us to a path: pawld may have come up at another one meanwhile."""
        if op == "session.open" and not self._given:
            self.path, self.path_from = socket_path()

    def call(
        self, op: str, fields: dict[str, Any], timeout: float | None = None, tool: str | None = None, held: float = 0.0
    ) -> dict[str, Any]:
        """held: seconds for which pawld may keep the answer back, beside the time-out."""
        body, seconds = _proto.request(op, fields), (timeout or self.timeout) + held
        self._aim(op)
        try:
            raw = _transport(self.path).request(body, time.monotonic() + seconds, held > 0)
        except (OSError, ProtocolError) as e:
            raise self.silence(e, seconds) from e
        return self.read(raw, op, tool)

    async def acall(
        self,
        op: str,
        fields: dict[str, Any],
        timeout: float | None = None,
        tool: str | None = None,
        on_send: Callable[[], None] | None = None,
        held: float = 0.0,
    ) -> dict[str, Any]:
        body, seconds = _proto.request(op, fields), (timeout or self.timeout) + held
        self._aim(op)
        try:
            raw = await _transport(self.path).arequest(body, time.monotonic() + seconds, on_send, held > 0)
        except (OSError, ProtocolError) as e:
            raise self.silence(e, seconds) from e
        return self.read(raw, op, tool)

    def silence(self, e: BaseException, seconds: float) -> Unavailable:
        if isinstance(e, Unavailable):
            return ProtocolError(e.message, path=self.path, path_from=self.path_from)
        if isinstance(e, TimeoutError):
            return Unavailable(f"no answer within {seconds:g} s", path=self.path, path_from=self.path_from)
        why = getattr(e, "strerror", None) or str(e) or type(e).__name__
        return Unavailable(why, path=self.path, path_from=self.path_from)

    def read(self, raw: bytes, op: str, tool: str | None) -> dict[str, Any]:
        try:
            return _proto.reply(raw, op, tool)
        except Unavailable as e:
            e.path, e.path_from = self.path, self.path_from
            raise


def hello(socket: str | os.PathLike[str] | None = None, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Who answers at the socket: version, policy, mode, what is watched. Needs no session."""
    return Door(socket, timeout).call("hello", {})
