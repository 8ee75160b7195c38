"""What a caller can catch. All of it means: the guarded body did not run.

Every class survives pickling, since process pools send exceptions that way: args holds the bare message, __dict__ the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _process
from ._money import span_seconds
from .reasons import HINTS, ReasonCode

if TYPE_CHECKING:
    from ._asking import Asking
    from ._proto import Permit

HOW_TO_START = (
    "To start it: `pawl init` (once), then `pawld`, as the user that runs this program; or elsewhere: `pawl init DIR`, "
    "`pawld --dir DIR`, and PAWL_SOCKET=DIR/run/agent.sock for this program"
)


def printable(text: str) -> str:
    """Text from elsewhere goes to terminals and models: what could move a cursor or hide is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class PawlError(Exception):
    """Base of all that pawl raises about a call."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class _Answered(PawlError):
    """pawld's answer was not `allow`."""

    word = "refused"
    helps: str | None = None  # the code whose hint is shown, where it is not the answer's own

    def __init__(
        self,
        message: str = "",
        *,
        code: str = ReasonCode.UNAVAILABLE,
        tool: str | None = None,
        rule: str | None = None,
        counter: str | None = None,
        limit: str | None = None,
        unit: str | None = None,
        decision: str | None = None,
        review: str | None = None,
        reset_at: str | None = None,
        retry_after: str | None = None,
        remaining: Mapping[str, Any] | None = None,
        expires: str | None = None,
        operator: str | None = None,
        operator_reason: str | None = None,
    ) -> None:
        super().__init__(message)
        try:
            code = ReasonCode(code)
        except ValueError:
            pass  # a newer pawld: keep its word
        self.code = code
        self.tool = tool
        self.rule = rule
        self.counter = counter
        self.limit = limit
        self.unit = unit
        self.decision = decision
        self.review = review
        self.reset_at = reset_at
        self.retry_after = retry_after
        self.remaining: dict[str, Any] = dict(remaining or {})
        self.expires = expires
        self.operator = operator
        self.operator_reason = operator_reason

    @property
    def retry_after_seconds(self) -> float | None:
        """retry_after as a number. An HTTP Retry-After wants whole seconds: math.ceil() of it."""
        return span_seconds(self.retry_after)

    def __str__(self) -> str:
        facts = [str(self.code)]
        if self.rule:
            facts.append(f"rule {self.rule}")
        if self.limit is not None:
            facts.append(f"{self.counter} of {self.limit} {self.unit or ''}".rstrip())
        if self.reset_at:
            facts.append(f"resets {self.reset_at}")
        if self.retry_after:
            facts.append(f"retry after {self.retry_after}")
        if self.operator:
            facts.append(f"by {self.operator}")
        facts += [x for x in (self.review, self.decision) if x]
        text = f"{self.tool or 'pawld'}: {self.word}: {self.message or 'no reason given'} [{', '.join(facts)}]"
        hint = HINTS.get(self.helps or self.code)
        return printable(f"{text}. {hint[0].upper()}{hint[1:]}." if hint else text)


class Denied(_Answered):
    """The answer is no. The fields say why, by which rule and number, and until when."""

    word = "denied"


class Skipped(Denied):
    """A person said: not this call, go on without it. `operator` and `operator_reason` say who and why, where known."""

    word = "skipped"


class Aborted(Denied):
    """A person ended the session. Nothing more runs in it; what asks again asks in vain."""

    word = "aborted"


def refusal(code: str | None) -> type[Denied]:
    """Which denial a reason code is."""
    if code == ReasonCode.REVIEW_SKIPPED:
        return Skipped
    return Aborted if code in (ReasonCode.REVIEW_ABORTED, ReasonCode.SESSION_ABORTED) else Denied


class ReviewPending(_Answered):
    """A person has to look first; `review` names the card, `expires` says until when. The call did not run.

    An equal call joins the same card, and runs once it was resumed. Where the wait for it ran out before the answer
    came, only claim() can have that approval.
    """

    word = "held for review"
    helps = ReasonCode.REVIEW_REQUIRED
    _asked: tuple[Asking, dict[str, Any]]  # set by the session

    def claim(self) -> Permit:
        """The permit of this very call, when a person has resumed it meanwhile. Raises as Session.claim() does."""
        session, fields = self._take()
        try:
            permit = session._claim({**fields, "review": self.review})
        except BaseException:
            self._asked = (session, fields)
            raise
        self._asked = (session, {**fields, "call": _process.here().call_id()})
        return permit

    async def aclaim(self) -> Permit:
        session, fields = self._take()
        try:
            permit = await session._aclaim({**fields, "review": self.review})
        except BaseException:
            self._asked = (session, fields)
            raise
        self._asked = (session, {**fields, "call": _process.here().call_id()})
        return permit

    def _take(self) -> tuple[Asking, dict[str, Any]]:
        """The same call id until it worked, since a lost answer then comes again; later a new one: one yes, one run."""
        asked: tuple[Asking, dict[str, Any]] | None = self.__dict__.pop("_asked", None)  # by one thread at a time
        if asked is None or self.review is None:
            raise RuntimeError(
                "this copy does not hold the call (it was pickled, or another thread is claiming it); "
                "there is Session.claim(review, tool, args)"
            )
        return asked

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the session, whose locks and token stay in this process."""
        return type(self), self.args, {k: v for k, v in self.__dict__.items() if k != "_asked"}


class Unavailable(PawlError):
    """No verdict could be had: pawld away, too slow, or unable to write its log. Silence is no."""

    def __init__(self, message: str = "", *, path: str | None = None, path_from: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.path_from = path_from

    def __str__(self) -> str:
        text = f"no verdict from pawld: {self.message}; nothing was allowed"
        if self.path:
            text += f". Tried {self.path} ({self.path_from or 'given'}). {HOW_TO_START}."
        return printable(text)


class ProtocolError(Unavailable):
    """Something answered, but not with a well-formed reply to this request. Counts as silence."""


class Malformed(PawlError):
    """pawld refused the request itself; `field` says where."""

    def __init__(self, message: str = "", *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field

    def __str__(self) -> str:
        return printable(
            f"pawld refused the request as malformed{f' ({self.field})' if self.field else ''}: {self.message}"
        )
