"""The operation of a plan that is not approved. It computes the preview that is stored, and stops there.

`DraftPlan` is another type than `ApprovedPlan`, so no function that changes something accepts it. The consent step
always refuses.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Never

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT, render_time
from remit.execution.decision import PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview
from remit.execution.journal import RequestIds
from remit.plans.apply.environment import PlanEnvironment
from remit.plans.policy.plan import decide_plan
from remit.plans.preview.build import PreviewTools, preview_plan
from remit.plans.preview.document import PlanPreview
from remit.plans.runtime.steps import needs_parsers


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """An unapproved plan, and its digest."""

    plan: Plan
    digest: str


def draft_of(plan: Plan) -> DraftPlan:
    return DraftPlan(plan, plan.digest())


@dataclass(frozen=True)
class DraftOperation(Operation[DraftPlan, DraftPlan, Never, Never, Never]):
    """The engine's steps for `remit preview` and `remit approve`: those of an approved plan, up to the preview."""

    environment: PlanEnvironment
    name: str = field(default="draft", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> DraftPlan:
        (document,) = raw
        return draft_of(Plan.parse(document))

    def trace(self, request: DraftPlan) -> RequestIds:
        return RequestIds(DEFAULT_TENANT, request.digest, self.name, request.digest, request.digest)

    def verify_authority(self, request: DraftPlan, now: datetime) -> DraftPlan:
        """Return the request unchanged. A draft has no authority, and this step gives it none."""
        return request

    def decide(self, request: DraftPlan) -> PolicyDecision:
        rules = self.environment.rules
        return decide_plan(request.plan, rules.config(), rules.root(), None)

    def preview(self, granted: DraftPlan) -> PlanPreview:
        """Compute the preview. Its prepared files are open: the caller keeps them, and closes them."""
        rules = self.environment.rules
        preview = preview_plan(
            granted.plan,
            rules.config(),
            rules.root(),
            PreviewTools(
                self.environment.runner("draft", needs_parsers=needs_parsers(granted.plan, rules.config())),
                replace(self.environment.engines("draft", granted.plan.plan_id), tries_rules=True),
            ),
            plan_digest=granted.digest,
            at=render_time(rules.clock()),
            diffs="full",
        )
        return replace(preview, statements=None)

    def consent(self, granted: DraftPlan, preview: Preview, now: datetime) -> str:
        raise _unapproved()

    def checkpoint(self, granted: DraftPlan, preview: Preview) -> str:
        raise _unapproved()

    def require_still_valid(self, granted: DraftPlan, now: datetime) -> None:
        raise _unapproved()

    def load_checkpoint(self, text: str) -> Never:
        raise _unapproved()

    def effect(self, granted: DraftPlan, checkpoint: Never, note: Note) -> Never:
        raise _unapproved()

    def recover_effect(self, checkpoint: Never, notes: Notes, note: Note) -> Never:
        raise _unapproved()

    def undo(self, checkpoint: Never, notes: Notes, note: Note) -> Never:
        raise _unapproved()

    def verify_effect(self, checkpoint: Never, run_result: Never) -> Never:
        raise _unapproved()

    def succeed(self, request: DraftPlan, checkpoint: Never, run_result: Never) -> Never:
        raise _unapproved()

    def fail(self, request: DraftPlan, problem: RemitError, checkpoint: Any = None) -> Never:
        raise problem

    def store_outcome(self, outcome: Never) -> Never:
        raise _unapproved()

    def load_outcome(self, stored: str, recorded_at: str) -> Never:
        raise _unapproved()


def _unapproved() -> RefusedError:
    return RefusedError(
        Reason.SIGNATURE_INVALID,
        "this plan is not approved",
        next_step="Approve it: remit approve",
    )
