"""Tools for plans: see what one would do, propose it, apply it once a person has approved it, take it back."""

from typing import Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Uuid
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentUndoAnswer
from remit.contracts.services.plans import IdempotencyKey, Note, ProposalView
from remit.mcp_server.context import FIRST_LOOK, ToolCall, WaitSeconds, document_bytes
from remit.mcp_server.schemas import Document, shipped
from remit.mcp_server.summaries import ENDED_STATES, of_proposal, of_undo
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, acts

ProposalId = Annotated[Uuid, Field(description="As propose_plan gave it.")]


class PreviewPlan(Contract):
    plan: Annotated[Document, Field(description="A plan, as propose_plan takes it.")]


class ProposePlan(Contract):
    plan: Annotated[Document, shipped("plan")]
    note: Note | None = Field(default=None, description="A word to whoever decides. Nothing is decided by it.")
    key: IdempotencyKey | None = Field(
        default=None, description="With the same key the same plan is proposed once, however often it is sent."
    )
    wait_seconds: WaitSeconds = 0


class FollowPlan(Contract):
    proposal_id: ProposalId
    wait_seconds: WaitSeconds = 0


class ApplyPlan(Contract):
    proposal_id: ProposalId
    wait_seconds: WaitSeconds = 20


class NamePlan(Contract):
    proposal_id: ProposalId


async def _preview(call: ToolCall[PreviewPlan]) -> ToolAnswer:
    plan = document_bytes(call.arguments.plan, "plan")
    document = await call.ask(lambda caller: call.desk.plans.preview(caller, plan))
    return ToolAnswer(
        document, "Nothing was changed. This is what you sent; what it would do to the files, a person sees."
    )


async def _propose(call: ToolCall[ProposePlan]) -> ToolAnswer:
    given = call.arguments
    plan = document_bytes(given.plan, "plan")
    view = await call.ask(lambda caller: call.desk.plans.propose(caller, plan, note=given.note, key=given.key))
    return await _followed(call, view, given.wait_seconds, waits_for={"PENDING"})


async def _status(call: ToolCall[FollowPlan]) -> ToolAnswer:
    given = call.arguments
    view = await call.ask(lambda caller: call.desk.plans.get(caller, given.proposal_id))
    return await _followed(call, view, given.wait_seconds, waits_for={"PENDING", "RUNNING"})


async def _apply(call: ToolCall[ApplyPlan]) -> ToolAnswer:
    given = call.arguments
    first = min(FIRST_LOOK, given.wait_seconds)
    view = await call.ask(lambda caller: call.desk.plans.apply(caller, given.proposal_id, first))
    answer = await _followed(call, view, given.wait_seconds, waits_for={"RUNNING"})
    return ToolAnswer(answer.document, answer.words, refused=_was_refused(answer.document))


def _was_refused(view: Contract) -> bool:
    """What is approved still, after it was to be applied."""
    return isinstance(view, ProposalView) and view.state == "APPROVED" and view.refused is not None


async def _undo(call: ToolCall[NamePlan]) -> ToolAnswer:
    taken = await call.ask(lambda caller: call.desk.plans.undo(caller, call.arguments.proposal_id))
    return ToolAnswer(taken, of_undo(taken), refused=taken.status == "REFUSED")


async def _cancel(call: ToolCall[NamePlan]) -> ToolAnswer:
    view = await call.ask(lambda caller: call.desk.plans.cancel(caller, call.arguments.proposal_id))
    return ToolAnswer(view, of_proposal(view))


async def _followed(
    call: ToolCall[ProposePlan] | ToolCall[FollowPlan] | ToolCall[ApplyPlan],
    view: ProposalView,
    seconds: int,
    waits_for: set[str],
) -> ToolAnswer:
    def told(now: ProposalView) -> str | None:
        return of_proposal(now) if now.state in waits_for and now.state not in ENDED_STATES else None

    view = await call.follow(view, lambda caller: call.desk.plans.get(caller, view.proposal_id), seconds, told)
    return ToolAnswer(view, of_proposal(view))


TOOLS: Final = (
    ToolSpec(
        "preview_plan",
        "See what a plan would do",
        "Checks a plan, stores and changes nothing: its shape, paths and limits, the risks that its text shows,"
        " what a person would have to allow. Null means withheld, not none: the diff, and whether it would fail, is for"
        " people.",
        PreviewPlan,
        AgentPlanPreview,
        READS,
        _preview,
    ),
    ToolSpec(
        "propose_plan",
        "Propose a plan",
        "Hands a plan to the people who decide. Nothing is changed: a person looks at its diff and approves or denies"
        " it elsewhere. Whether an edit matches the files is shown to that person, not here. The answer holds the"
        " proposal_id and where the person answers: tell your user.",
        ProposePlan,
        ProposalView,
        acts(destructive=False, idempotent=False),
        _propose,
    ),
    ToolSpec(
        "plan_status",
        "Where a proposed plan stands",
        "Whether a proposal was answered, and how its run ended. wait_seconds: waits for a change.",
        FollowPlan,
        ProposalView,
        READS,
        _status,
    ),
    ToolSpec(
        "apply_plan",
        "Apply an approved plan",
        "Carries out a plan that a person has approved, once; asked again it tells what came of it. Refused before the"
        " approval, or when a file has changed since.",
        ApplyPlan,
        ProposalView,
        acts(destructive=True, idempotent=True),
        _apply,
    ),
    ToolSpec(
        "undo_plan",
        "Take an applied plan back",
        "Restores what the plan changed. Refused when one of these files was changed since; a person sees which one."
        " Null means withheld, not none.",
        NamePlan,
        AgentUndoAnswer,
        acts(destructive=True, idempotent=True),
        _undo,
    ),
    ToolSpec(
        "cancel_plan",
        "Withdraw or stop a plan",
        "Withdraws a proposal, makes an unused approval void, or stops a run and has it taken back.",
        NamePlan,
        ProposalView,
        acts(destructive=True, idempotent=True),
        _cancel,
    ),
)
