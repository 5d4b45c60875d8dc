"""Decorators for the methods of the plan service: a refusal is recorded with its caller, whichever interface called."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from remit.core.errors import RemitError
from remit.execution.refusals import FindSubject, PlanRequest, Subject, about_name, about_plan_text
from remit.identity.callers import Caller
from remit.workspace.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


class HasWorkspace(Protocol):
    @property
    def _workspace(self) -> Workspace: ...


NameOperation = PlanRequest | Callable[[Mapping[str, Any]], PlanRequest]
"""The operation, or a function that names it from the keyword arguments."""


def records_refusals_of_plan(operation: PlanRequest) -> Callable[[F], F]:
    """Record a refusal of a method that takes a caller and a plan."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def recorded(self: HasWorkspace, caller: Caller, plan: bytes, **given: Any) -> Any:
            with self._workspace.refusals.recording(operation, caller.id, about_plan_text(plan)):
                return method(self, caller, plan, **given)

        return cast("F", recorded)

    return decorate


def records_refusals(operation: NameOperation) -> Callable[[F], F]:
    """Record a refusal of a method that takes a caller and the name of a proposal or a run."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def recorded(self: HasWorkspace, caller: Caller, name: str, *more: Any, **given: Any) -> Any:
            workspace = self._workspace
            named = operation(given) if callable(operation) else operation
            with workspace.refusals.recording(named, caller.id, about_proposal(workspace, name)):
                return method(self, caller, name, *more, **given)

        return cast("F", recorded)

    return decorate


def about_proposal(workspace: Workspace, name: str) -> FindSubject:
    """The request names a proposal, or a run. The entry has the whole id and the plan of a known proposal.

    A person may give the beginning of the id.
    """

    def find() -> Subject | None:
        try:
            row = workspace.proposals.find_by_name(name)
        except RemitError:  # there is none, or the row is not as recorded and says nothing
            return about_name(name)()
        return Subject(row.proposal_id, {"plan_id": row.plan_id, "plan_digest": row.plan_digest})

    return find
