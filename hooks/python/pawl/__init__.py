"""pawl: ask pawld before a tool runs.

    import pawl

    @pawl.guard(tool="page.fetch", budget="0.50", max_repeat_calls=2)
    def fetch(url: str) -> str: ...

The body runs only when pawld answers `allow`. Otherwise Denied (Skipped, Aborted), ReviewPending or
Unavailable is raised.
"""

from ._client import Session, current_session, default_session
from ._door import hello, socket_path
from ._guard import guard
from ._proto import Permit, Would
from .errors import Aborted, Denied, Malformed, PawlError, ProtocolError, ReviewPending, Skipped, Unavailable
from .reasons import ReasonCode

__version__ = "0.1.0"
__all__ = [
    "Aborted",
    "Denied",
    "Malformed",
    "PawlError",
    "Permit",
    "ProtocolError",
    "ReasonCode",
    "ReviewPending",
    "Session",
    "Skipped",
    "Unavailable",
    "Would",
    "current_session",
    "default_session",
    "guard",
    "hello",
    "socket_path",
]
