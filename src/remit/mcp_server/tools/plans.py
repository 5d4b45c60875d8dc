"""Tools for plans: check a plan, propose it, apply it after a person approved it, roll it back, withdraw it."""

from typing import Annotated, Final

from pydantic import Field

from remit.contracts.base import Contract, Uuid
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentProposalPreview, AgentReadPreview, AgentUndoAnswer
from remit.contracts.services.plans import IdempotencyKey, Note, ProposalView
from remit.mcp_server.context import FIRST_WAIT, ToolCall, WaitSeconds, document_bytes
from remit.mcp_server.schemas import Document, publish_schema
from remit.mcp_server.summaries import ENDED_STATES, summarise_proposal, summarise_undo
from remit.mcp_server.tools.base import READS, ToolAnswer, ToolSpec, writes

ProposalId = Annotated[Uuid, Field(description="The proposal_id that propose_plan returned.")]


class PreviewPlan(Contract):
    plan: Annotated[Document, Field(description="A plan. propose_plan has its schema.")]


class ProposePlan(Contract):
    plan: Annotated[Document, publish_schema("plan")]
    note: Note | None = Field(default=None, description="A note to the approver. It decides nothing.")
    key: IdempotencyKey | None = Field(
        default=None,
        description="A key that you choose. A repeated call with the same key and plan proposes the plan once.",
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
        document,
        "Nothing was changed. This is about the text that you sent. Only people see what it would do to the files.",
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


async def _read_preview(call: ToolCall[NamePlan]) -> ToolAnswer:
    found = await call.run(lambda caller: call.services.plans.read_preview(caller, call.arguments.proposal_id))
    if not isinstance(found.document, AgentReadPreview):
        return ToolAnswer(found, "This is about the text that you sent. Only people see what it would do to the files.")
    failing = found.document.consequence or "Nothing of it would fail."
    return ToolAnswer(found, f"{found.document.status}, risk {found.document.risk}. {failing}")


async def _apply(call: ToolCall[ApplyPlan]) -> ToolAnswer:
    arguments = call.arguments
    first = min(FIRST_WAIT, arguments.wait_seconds)
    view = await call.run(lambda caller: call.services.plans.apply(caller, arguments.proposal_id, first))
    answer = await _follow(call, view, arguments.wait_seconds, pending_states={"RUNNING"})
    return ToolAnswer(answer.document, answer.summary, refused=_was_refused(answer.document))


def _was_refused(view: Contract) -> bool:
    """Whether applying was refused, so that the plan is still approved and not applied."""
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
        "Check a plan",
        "Checks the text of a plan before you propose it. It needs a plan and the capability plan.propose. It stores"
        " and changes nothing. It returns the checked shape, paths and limits, the risks of the plan's text, and the"
        " exceptions that a person would have to allow. Null means withheld, not none: it reads no file. After"
        " propose_plan, read_plan_preview may show more. If it is refused, correct the field in `where`, as next_step"
        " says, and call it again.",
        PreviewPlan,
        AgentPlanPreview,
        READS,
        _preview,
        is_about_plans=True,
    ),
    ToolSpec(
        "propose_plan",
        "Propose a plan",
        "Proposes a plan to the people who approve. It changes no file. It needs a plan and the capability"
        " plan.propose. It returns the proposal_id and the place where a person approves: show that to your user."
        " Call plan_status until the plan is approved, then apply_plan. Only the approver sees whether an edit"
        " matches the files. If it is refused, no proposal was made: correct what next_step names, and propose again.",
        ProposePlan,
        ProposalView,
        writes(destructive=False, idempotent=False),
        _propose,
        is_about_plans=True,
    ),
    ToolSpec(
        "plan_status",
        "Status of a proposed plan",
        "Returns the state of a proposal of this agent: whether a person has decided, how far its run is, and how it"
        " ended. It needs the proposal_id, and changes nothing. With wait_seconds it waits for a change. If it is"
        " refused, this agent has no such proposal: use the proposal_id that propose_plan returned.",
        FollowPlan,
        ProposalView,
        READS,
        _status,
        is_about_plans=True,
    ),
    ToolSpec(
        "read_plan_preview",
        "Read the preview of a proposed plan",
        "Returns the preview of a proposal of this agent. It needs the proposal_id and the capability plan.propose or"
        " plan.read. It changes and computes nothing. With plan.propose it repeats the text that you sent, and null"
        " means withheld. With plan.read it has the diff, the rows and what would fail, as people see them, if the"
        " token names every file and connection of the plan, no file is protected or holds a credential, the plan runs"
        " no pipeline, the preview was quick to compute, and the time in preview_note is over. Otherwise it is as"
        " without plan.read. Each call is recorded.",
        NamePlan,
        AgentProposalPreview,
        READS,
        _read_preview,
    ),
    ToolSpec(
        "apply_plan",
        "Apply an approved plan",
        "Applies a plan that a person has approved, once and as a whole. It needs the proposal_id and the capability"
        " plan.apply. It returns the state of the run; a repeated call returns the stored outcome. It is refused before"
        " the approval, or if a file has changed since. Then nothing was changed: wait for the approval with"
        " plan_status, or do what next_step says.",
        ApplyPlan,
        ProposalView,
        writes(destructive=True, idempotent=True),
        _apply,
        is_about_plans=True,
    ),
    ToolSpec(
        "undo_plan",
        "Roll back an applied plan",
        "Rolls an applied plan back: restores the files and rows that it changed. It needs the proposal_id and the"
        " capability plan.undo. It returns the outcome of the rollback. Null means withheld, not none. It is refused"
        " if one of these files has changed since the run. Then ask your user: a person can see which file changed,"
        " and can overwrite it.",
        NamePlan,
        AgentUndoAnswer,
        writes(destructive=True, idempotent=True),
        _undo,
        is_about_plans=True,
    ),
    ToolSpec(
        "cancel_plan",
        "Withdraw or stop a plan",
        "Withdraws a proposal, makes an unused approval void, or stops a run, whose changes are then undone. It needs"
        " the proposal_id and the capability plan.propose. It returns the new state. If it is refused, the plan has"
        " already ended: plan_status shows how, and undo_plan rolls an applied plan back.",
        NamePlan,
        ProposalView,
        writes(destructive=True, idempotent=True),
        _cancel,
        is_about_plans=True,
    ),
)
