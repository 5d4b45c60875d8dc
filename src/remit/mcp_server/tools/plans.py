"""Tools for plans: see what one would do, propose it, apply it once a person has approved it, take it back."""

from typing import Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Uuid
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentUndoAnswer
from remit.contracts.services.plans import IdempotencyKey, Note, ProposalView
from remit.mcp_server.context import FIRST_WAIT, ToolCall, WaitSeconds, document_bytes
from remit.mcp_server.schemas import Document, publish_schema
from remit.mcp_server.summaries import ENDED_STATES, summarise_proposal, summarise_undo
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, writes

ProposalId = Annotated[Uuid, Field(description="As propose_plan gave it.")]


class PreviewPlan(Contract):
    plan: Annotated[Document, Field(description="A plan, as propose_plan takes it.")]


class ProposePlan(Contract):
    plan: Annotated[Document, publish_schema("plan")]
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
    document = await call.run(lambda caller: call.services.plans.preview(caller, plan))
    return ToolAnswer(
        document, "Nothing was changed. This is what you sent; what it would do to the files, a person sees."
    )


async def _propose(call: ToolCall[ProposePlan]) -> ToolAnswer:
    arguments = call.arguments
    plan = document_bytes(arguments.plan, "plan")
    view = await call.run(
        lambda caller: call.services.plans.propose(caller, plan, note=arguments.note, key=arguments.key)
    )
    return await _follow(call, view, arguments.wait_seconds, pending_states={"PENDING"})


async def _status(call: ToolCall[FollowPlan]) -> ToolAnswer:
    arguments = call.arguments
    view = await call.run(lambda caller: call.services.plans.get(caller, arguments.proposal_id))
    return await _follow(call, view, arguments.wait_seconds, pending_states={"PENDING", "RUNNING"})


async def _apply(call: ToolCall[ApplyPlan]) -> ToolAnswer:
    arguments = call.arguments
    first = min(FIRST_WAIT, arguments.wait_seconds)
    view = await call.run(lambda caller: call.services.plans.apply(caller, arguments.proposal_id, first))
    answer = await _follow(call, view, arguments.wait_seconds, pending_states={"RUNNING"})
    return ToolAnswer(answer.document, answer.summary, refused=_was_refused(answer.document))


def _was_refused(view: Contract) -> bool:
    """What is approved still, after it was to be applied."""
    return isinstance(view, ProposalView) and view.state == "APPROVED" and view.refused is not None


async def _undo(call: ToolCall[NamePlan]) -> ToolAnswer:
    undone = await call.run(lambda caller: call.services.plans.undo(caller, call.arguments.proposal_id))
    return ToolAnswer(undone, summarise_undo(undone), refused=undone.status == "REFUSED")


async def _cancel(call: ToolCall[NamePlan]) -> ToolAnswer:
    view = await call.run(lambda caller: call.services.plans.cancel(caller, call.arguments.proposal_id))
    return ToolAnswer(view, summarise_proposal(view))


async def _follow(
    call: ToolCall[ProposePlan] | ToolCall[FollowPlan] | ToolCall[ApplyPlan],
    view: ProposalView,
    seconds: int,
    pending_states: set[str],
) -> ToolAnswer:
    def describe(current: ProposalView) -> str | None:
        return (
            summarise_proposal(current)
            if current.state in pending_states and current.state not in ENDED_STATES
            else None
        )

    view = await call.poll(view, lambda caller: call.services.plans.get(caller, view.proposal_id), seconds, describe)
    return ToolAnswer(view, summarise_proposal(view))


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
        writes(destructive=False, idempotent=False),
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
        writes(destructive=True, idempotent=True),
        _apply,
    ),
    ToolSpec(
        "undo_plan",
        "Take an applied plan back",
        "Restores what the plan changed. Refused when one of these files was changed since; a person sees which one."
        " Null means withheld, not none.",
        NamePlan,
        AgentUndoAnswer,
        writes(destructive=True, idempotent=True),
        _undo,
    ),
    ToolSpec(
        "cancel_plan",
        "Withdraw or stop a plan",
        "Withdraws a proposal, makes an unused approval void, or stops a run and has it taken back.",
        NamePlan,
        ProposalView,
        writes(destructive=True, idempotent=True),
        _cancel,
    ),
)
