"""What belongs to one process and must not be shared across a fork: client id, call counter, locks, the keeper thread.

A fork copies memory, not threads: a lock that another thread held stays locked for ever in the child. So nothing old is
ever taken in a child: it gets a new Here, and whoever kept something of the old one sees `home is not here()`.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._keeper import Keeper


class Here:
    __slots__ = ("pid", "client", "lock", "keeper", "_calls")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.client = secrets.token_hex(16)
        self.lock = threading.RLock()  # for short steps in memory; never held across I/O
        self.keeper: Keeper | None = None
        self._calls = itertools.count(1)

    def call_id(self) -> str:
        """Unique among all processes of a session: the same id under another client would be `in_doubt`."""
        return f"{self.client[:12]}-{next(self._calls)}"


_here = Here()


def _renew() -> None:
    global _here
    _here = Here()


def here() -> Here:
    # The hook below sees every os.fork(), also one into a new pid namespace where the number may be equal;
    # the number sees a fork() that C code made behind Python's back.
    if _here.pid != os.getpid():
        _renew()
    return _here


os.register_at_fork(after_in_child=_renew)
