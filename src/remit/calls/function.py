"""The declaration of a governed function, and the code that calls it."""

import asyncio
import contextlib
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from remit.contracts.base import RiskLevel
from remit.contracts.browser.capabilities import CALL, CALL_NAME
from remit.contracts.calls.call import CallArguments
from remit.core.errors import Reason, UsageError

Consent = Literal["person", "policy", "none"]
Verdict = Literal["allow", "ask", "refuse"]
VERDICTS: Final = frozenset({"allow", "ask", "refuse"})

APPROVAL_REQUEST_LIFE: Final = timedelta(hours=24)
"""The time for a person's decision and for its use by the agent. Nothing is held meanwhile."""
_POLL_SECONDS: Final = 1.0
"""The time within which the end of an event loop is noticed."""


class NotDoneError(Exception):
    """Raise this in a governed function that certainly changed nothing. The result then has the effect `none`."""


@dataclass(frozen=True)
class GovernedFunction:
    """A governed function with its companion functions.

    Companions are called with the same arguments, by name. Any other argument comes first. `preview` makes the sentence
    for the approver. `allow` returns allow, ask or refuse. `before` returns the data that `undo` needs, as JSON. `undo`
    restores the earlier state, also after a call that changed nothing. `verify` checks that the change was made.
    """

    name: str
    run: Callable[..., Any]
    arguments: type[CallArguments]
    description: str
    consent: Consent = "person"
    risk: RiskLevel = "MEDIUM"
    read_only: bool = False
    idempotent: bool = False
    """A repeated call changes nothing more, so an interrupted call may be made again."""
    preview: Callable[..., str] | None = None
    allow: Callable[..., Any] | None = None
    before: Callable[..., Any] | None = None
    undo: Callable[..., Any] | None = None
    verify: Callable[..., Any] | None = None
    private: Collection[str] = ()
    """Arguments that are hidden in every preview, record and message."""

    def __post_init__(self) -> None:
        if not re.fullmatch(CALL_NAME, self.name):
            raise _declaration_error(self.name, "its name must look like `crm.set_discount`")
        self._require_no_generators()
        if self.consent not in {"person", "policy", "none"}:
            raise _declaration_error(self.name, "consent must be person, policy or none")
        if self.risk not in get_args(RiskLevel):
            raise _declaration_error(self.name, f"risk must be one of {', '.join(get_args(RiskLevel))}")
        if self.consent == "none" and not self.is_harmless:
            raise _declaration_error(self.name, 'consent="none" needs read_only= or undo=')
        if self.consent == "policy" and self.allow is None:
            raise _declaration_error(self.name, 'consent="policy" needs a rule: allow=')
        if self.read_only and self.undo is not None:
            raise _declaration_error(self.name, "a read-only function has nothing to undo")
        if self.before is not None and self.undo is None:
            raise _declaration_error(self.name, "before= needs undo=")
        unknown = set(self.private) - set(self.arguments.model_fields)
        if unknown:
            raise _declaration_error(self.name, f"there is no argument {min(unknown)!r} to keep private")

    def _require_no_generators(self) -> None:
        for what in ("run", "preview", "allow", "before", "undo", "verify"):
            companion = getattr(self, what)
            if inspect.isgeneratorfunction(companion) or inspect.isasyncgenfunction(companion):
                which = "it" if what == "run" else f"{what}="
                raise _declaration_error(self.name, f"{which} is a generator, so calling it runs nothing")

    @property
    def capability(self) -> str:
        return CALL + self.name

    @property
    def is_harmless(self) -> bool:
        return self.read_only or self.undo is not None

    @property
    def undo_description(self) -> str:
        if self.read_only:
            return "It only reads, so there is nothing to undo."
        if self.undo is None:
            return "None. Its effect cannot be undone."
        return "It is undone if it fails or is interrupted."

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.run)


@dataclass(frozen=True)
class Invoker:
    """Calls a function or a companion. The caller's own event loop, if there is one, runs an awaitable."""

    loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, function: Callable[..., Any], *first: Any, **arguments: Any) -> Any:
        made = function(*first, **arguments)
        if not inspect.isawaitable(made):
            return made
        if self.loop is not None and not self.loop.is_closed():
            return _run_in_loop(made, self.loop)
        return _run_in_new_loop(made)


async def _await_result(made: Any) -> Any:
    return await made


def _run_in_loop(made: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Run the awaitable in the loop of another thread. Also ends when that loop ends without having run it."""
    coroutine = _await_result(made)
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    while True:
        try:
            return future.result(_POLL_SECONDS)
        except TimeoutError:
            if future.done():
                raise  # the function's own
            is_over = not loop.is_running() and not threading.main_thread().is_alive()
            if loop.is_closed() or is_over:
                _close(coroutine)
                _close(made)
                raise RuntimeError("the event loop ended before the function did") from None


def _close(coroutine: Any) -> None:
    """Close a coroutine that no loop will run. Its own exceptions are ignored."""
    with contextlib.suppress(Exception):
        coroutine.close()


def _run_in_new_loop(made: Any) -> Any:
    """Run the awaitable in a new thread, because this thread may have a running loop."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(_await_result(made)))
        except BaseException as problem:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(problem)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return future.result()


def named(arguments: CallArguments) -> Mapping[str, Any]:
    """Return the arguments by name, each of its annotated type."""
    return {name: getattr(arguments, name) for name in type(arguments).model_fields}


def _declaration_error(name: str, why: str) -> UsageError:
    return UsageError(
        Reason.MISUSE,
        f"this function cannot be governed as declared: {why}",
        where=f"function {name}",
        next_step="See docs/how-to/govern-a-function.md.",
    )
