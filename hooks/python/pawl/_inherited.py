"""The session that `pawl run` hands over, by a descriptor: PAWL_SESSION_FD names a sealed memory file with its id, token and socket.

Reads and checks; never closes it, since children of this process need it too. Whatever is wrong with it is Unavailable:
a program under `pawl run` must not find another pawld, or another session, for want of this one.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import stat
from typing import Any

from .errors import Unavailable

VARIABLE = "PAWL_SESSION_FD"
MAX_BYTES = 4096
_GET_SEALS, _SEALS = 1034, 0b1111  # fcntl's F_GET_SEALS; F_SEAL_SEAL, _SHRINK, _GROW, _WRITE
_SESSION, _TOKEN = re.compile(r"s_[0-9]{1,20}", re.ASCII), re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Inherited:
    session: str
    token: str = dataclasses.field(repr=False)
    socket: str
    agent: str = "local"


def named() -> bool:
    return VARIABLE in os.environ


def read() -> Inherited:
    text = os.environ.get(VARIABLE, "")
    try:
        return _checked(_bytes(text))
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise Unavailable(
            f"the session of `pawl run` cannot be read from {VARIABLE}={text!r}: {why}. A program that closes descriptors "
            "for its children must pass this one on (subprocess: pass_fds=)"
        ) from e


def _bytes(text: str) -> bytes:
    if not re.fullmatch(r"[0-9]{1,6}", text, re.ASCII):
        raise ValueError("not a descriptor's number")
    fd = int(text)
    st = os.fstat(fd)
    # Only what cannot change any more is believed: another file under this number is somebody else's.
    if not stat.S_ISREG(st.st_mode) or st.st_size > MAX_BYTES or fcntl.fcntl(fd, _GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("not what `pawl run` left there")
    return os.pread(fd, MAX_BYTES, 0)


def _checked(raw: bytes) -> Inherited:
    got: Any = json.loads(raw.decode("utf-8"))
    if not isinstance(got, dict):
        raise ValueError("not an object")
    session, token, socket, agent = (got.get(k) for k in ("session", "token", "socket", "agent"))
    if not (isinstance(session, str) and _SESSION.fullmatch(session) and isinstance(token, str) and _TOKEN.fullmatch(token)):
        raise ValueError("no session in it")
    if not (isinstance(socket, str) and socket.startswith("/")):
        raise ValueError("no socket in it")
    return Inherited(session, token, socket, agent if isinstance(agent, str) and agent else "local")
