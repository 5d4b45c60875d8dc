"""Records the refusals of requests that never reach the steps of the engine, or only their dry run.

The engine records the refusals of the requests that it runs (`journal.py`). It does not see a caller without the right,
a preview, an approval that does not fit, or a check of the command line. The services, `Workspace` and the commands
call those inside of `Refusals.recording`. The outermost one records, because it knows the caller best.

A request is recorded only if it could be parsed. A document that cannot be parsed says nothing that could be trusted,
and is not recorded. Beyond a rate, the refusals of a caller are counted (`remit.ledger.counted_entries`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from remit.contracts.browser.browser import Action
from remit.contracts.plans.error_codes import plan_error
from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import digest_bytes
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.ledger.counted_entries import COUNTED_REFUSALS, CountedEntries
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Ledger
from remit.masking import mask_json

REQUEST_REFUSED: Final = "request.refused"
"""The kind of these entries. An agent does not get them as events: they are for people."""
PlanRequest = Literal["preview", "propose", "compute", "approve", "deny", "apply", "run", "cancel", "rollback"]
PLAN_REQUESTS: Final = frozenset(get_args(PlanRequest))
Request = PlanRequest | Literal["confirm", "task", "lease", "browse", "ask"]
"""What a caller asked for. The set is fixed: refusals are counted by it."""
Caller = str | Callable[[], str] | None
"""The name of the caller, or a function that finds it out. It is called only if the request was refused."""
MAX_NAME: Final = 200
E = TypeVar("E", bound=RemitError)
_LOG: Final = logging.getLogger("remit.refusals")
_recording: Final[ContextVar[bool]] = ContextVar("recording", default=False)


class Subject(NamedTuple):
    """What a refused request is about: the id that connects its records, and what the entry says about it."""

    correlation_id: str
    details: Mapping[str, str | None]


FindSubject = Callable[[], Subject | None]
"""Finds the subject, only for a request that was refused. None if the request could not be parsed."""


def about_plan_text(plan: bytes | Plan) -> FindSubject:
    """The request is about this plan. It is parsed only if it was refused."""

    def find() -> Subject | None:
        try:
            parsed = plan if isinstance(plan, Plan) else Plan.parse(plan)
        except RefusedError:
            return None
        digest = parsed.digest()
        return Subject(digest, {"plan_id": parsed.plan_id, "plan_digest": digest})

    return find


def about_name(name: str) -> FindSubject:
    """The request names a proposal, an envelope or a run."""

    def find() -> Subject:
        is_id = 0 < len(name) <= MAX_NAME and name.isprintable()
        return Subject(name if is_id else digest_bytes(name.encode("utf-8", "replace")), {})

    return find


def about_task(manifest: bytes) -> FindSubject:
    """The request is about the task of this manifest. It is parsed only if the request was refused."""

    def find() -> Subject | None:
        try:
            parsed = TaskManifest.parse(manifest)
        except RefusedError:
            return None
        return Subject(parsed.task_id, {"task_id": parsed.task_id, "capability_id": parsed.capability_id})

    return find


def about_action(action: bytes) -> FindSubject:
    """The request is this action of a browser. It is parsed only if it was refused."""

    def find() -> Subject | None:
        try:
            parsed = Action.parse(action)
        except RefusedError:
            return None
        return Subject(parsed.action_id, {"action_id": parsed.action_id})

    return find


class Refusals:
    """Records the refusals of one workspace."""

    def __init__(self, ledger: Callable[[], Ledger], tenant_id: str = DEFAULT_TENANT) -> None:
        self._counted = CountedEntries(ledger, COUNTED_REFUSALS, tenant_id)
        self._tenant_id = tenant_id

    @contextmanager
    def recording(self, operation: Request, caller: Caller, about: FindSubject) -> Iterator[None]:
        """Record a refusal of the work inside, and raise it as it is.

        Does nothing inside of another `recording`, and for a refusal that the engine has recorded.
        """
        if _recording.get():
            yield
            return
        token = _recording.set(True)
        try:
            yield
        except RefusedError as problem:
            self.record(operation, caller, about, problem)
            raise
        finally:
            _recording.reset(token)

    @contextmanager
    def recording_in_job(self, operation: Request, caller: Caller, about: FindSubject) -> Iterator[None]:
        """Record a refusal of the work inside, in a thread of its own.

        The thread has the context of the caller that started it, and may outlast the caller's `recording`.
        """
        try:
            yield
        except RefusedError as problem:
            self.record(operation, caller, about, problem)
            raise

    def record(self, operation: Request, caller: Caller, about: FindSubject, problem: RefusedError) -> None:
        """Record one refusal. A failure to record it is logged, and hides the refusal from no caller."""
        if problem.is_recorded:
            return
        try:
            subject = about()
            if subject is None:
                return
            name = caller() if callable(caller) else caller
            # A plain name: the token or session of a caller need not be valid for its refusal to be recorded.
            entry = self._entry(operation, None if name is None else str(name), subject, problem)
            self._counted.record(entry, operation=operation, reason=problem.reason.value)
            problem.is_recorded = True
        except Exception as failure:  # noqa: BLE001 - the caller must get the refusal, and not this failure
            about_it = {"operation": operation, "reason": problem.reason.value, "why": str(failure)}
            _LOG.error("a refusal could not be recorded", extra=about_it)

    def state_ended(self) -> int:
        """Write the entries that state the counts of windows that have ended. Returns how many."""
        return self._counted.state_ended()

    def _entry(self, operation: str, caller: str | None, subject: Subject, problem: RefusedError) -> NewEntry:
        named = plan_error(problem.reason)
        codes = {"code": named.code, "type": named.kind} if operation in PLAN_REQUESTS else {}
        told: Any = {**problem.as_json(), "operation": operation, "caller": caller, **codes, **subject.details}
        payload: Any = mask_json(told)
        return NewEntry(self._tenant_id, REQUEST_REFUSED, subject.correlation_id, payload, actor=caller)


def already_recorded(problem: E) -> E:
    """Return the problem marked as one that is recorded, whatever its words are now."""
    problem.is_recorded = True
    return problem
