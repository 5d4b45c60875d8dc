"""Answers of the services. HTTP, MCP and the console return them unchanged."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, Identifier, JsonObject, Many, ShortText, Text, Timestamp
from remit.contracts.browser.browser import ActionResult, FieldMap, Url
from remit.contracts.goals.goal import AgentExecutionOutcome, LanguageTag
from remit.contracts.ledger import Kind, Payload
from remit.contracts.services.goal_preview import GoalPreview
from remit.contracts.services.goal_steps import GoalSteps
from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import Reason, RemitError

T = TypeVar("T")

Cursor = Annotated[str, Field(min_length=1, max_length=1_000)]
"""The position in a list where the next page begins. Opaque: an answer contains it, and the next request sends it."""

Position = Annotated[str, Field(min_length=1, max_length=65_536)]
"""The position in a stream of events: the last sent entry of each chain."""

Link = Annotated[str, Field(max_length=4_096)]

QuestionKind = Literal["request", "plan", "goal", "confirmation"]
PreviewState = Literal["computed", "computing", "not_computed", "failed"]
PreviewProblem = Literal["configuration_changed", "would_fail"]
"""Whether the preview of a pending plan is stored. `not_computed`: a person computes it before the decision."""
QuestionState = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID", "USED"]
WaitingFor = Literal["confirmation", "approval", "clarification"]


class ErrorTold(Contract):
    """The reason of a refusal or failure: its code, what is wrong, where, and the next step. Masked."""

    code: Reason = Field(strict=False)
    what: Text
    where: Text
    next_step: Text


def describe_error(problem: RemitError) -> ErrorTold:
    return ErrorTold(code=problem.reason, what=problem.what, where=problem.where, next_step=problem.advice)


class Page(Contract, Generic[T]):
    """A part of a list, and the cursor of the next page. A page that is not full is not always the last one."""

    items: Many[T]
    next: Cursor | None = None


class Progress(Contract):
    """The progress of running work. Only the process that does the work knows it, and it is not stored."""

    phase: ShortText
    done: Count
    total: Count | None = None


class Waiting(Contract):
    """The decision of a person that this waits for, its deadline, and a link to it."""

    kind: QuestionKind
    id: Identifier
    tenant: Identifier
    what: Text
    expires: Timestamp | None
    link: Link | None = None
    step: Identifier | None = Field(default=None, description="The step that waits, if the goal has several steps.")


class TaskAnswer(Contract):
    """The state of a task. `refused`: nothing was claimed or done. `stored`: the result is that of an earlier call."""

    state: Literal["running", "done", "refused"]
    task_id: Identifier
    result: ExecutionResult | None = None
    stored: bool = False
    refused: ErrorTold | None = None
    progress: Progress | None = None
    withheld: Text | None = Field(
        default=None, description="Why an agent gets less information than a person. Null: nothing is withheld."
    )


class BrowseAnswer(Contract):
    """The state of a browser action. `waiting` is the approval request that it waits for.

    To see its outcome later, send the same action again, or read it by its id.
    """

    state: Literal["running", "waiting", "done"]
    action_id: Identifier
    result: ActionResult | None = None
    stored: bool = False
    refused: bool = Field(default=False, description="Nothing was claimed or done.")
    waiting: Waiting | None = None


class BrowserStatus(Contract):
    """Whether the workspace's browser runs, and how many sessions it has."""

    running: bool
    sessions: Count


class GoalAnswer(Contract):
    """The state of a goal. `next` lists the next steps, and who can take them."""

    state: Literal["running", "waiting", "done", "failed", "refused"]
    tenant_id: Identifier
    correlation_id: Identifier
    user_id: Identifier
    event: ShortText = Field(description="The goal's last event; empty before the first.")
    text: Text = Field(description="The message or question for the user.")
    text_language: LanguageTag | None = Field(
        default=None, description="The language of the text. Null if it is empty, or the Finder's own question."
    )
    outcome: AgentExecutionOutcome | None = None
    waiting_for: WaitingFor | None = None
    waiting: Waiting | None = None
    why: Text | None = None
    can_take_back: bool = False
    next: Many[ShortText] = ()
    steps: GoalSteps | None = Field(default=None, description="The steps, if the goal has several. Null otherwise.")
    preview: GoalPreview | None = Field(
        default=None,
        description="For people: what the action that waits for a decision would do. Null if it was not computed.",
    )


class Question(Contract):
    """One line of the inbox: a request that waits for a person, or one that is closed, with its outcome."""

    kind: QuestionKind
    id: Identifier
    tenant: Identifier
    title: Text
    asked_by: ShortText
    authority: ShortText = Field(description="The authority of the requester: a token, or a user and the policies.")
    risk: ShortText | None
    created_at: Timestamp
    expires_at: Timestamp | None
    state: QuestionState = "PENDING"
    decided_by: ShortText | None = None
    decided_at: Timestamp | None = None
    reason: ShortText | None = None
    preview_state: PreviewState | None = Field(
        default=None, description="For a plan that waits for a decision: whether its preview is stored."
    )
    preview_problem: PreviewProblem | None = Field(
        default=None,
        description="Why the stored preview of a pending plan cannot be approved, by records alone. Files are compared"
        " when the preview is read.",
    )
    link: Link | None = None
    step: Identifier | None = Field(
        default=None, description="For a goal with several steps: the step that waits. A decision must name it."
    )


class RequestAsked(Contract):
    """The request or call of an agent, exactly as it will be made, with secrets masked.

    A browser request has `url`. A call of a governed function has `arguments` and `way_back`, which says how the call
    can be undone.
    """

    headline: Text
    effect: Text
    method: ShortText | None
    url: Url | None
    headers: FieldMap
    body: FieldMap
    masked: FieldMap = Field(description="Fields whose value is not shown.")
    arguments: FieldMap
    way_back: Text | None
    action_id: Identifier
    token_jti: Identifier
    request_digest: Digest = Field(description="The digest of the request that is shown. An approval must name it.")
    has_picture: bool


class GoalAsked(Contract):
    """The goal of a user, and its effect. The text comes from the ledger; an agent cannot change it."""

    user_id: ShortText
    language_tag: ShortText
    utterance: Text
    simulation_id: ShortText
    title: ShortText
    version: ShortText
    impact: ShortText
    risk: ShortText
    fields: JsonObject
    policies: Many[ShortText]
    policy_reasons: JsonObject = Field(default={}, description="The `@reason` of each policy that has one, by its id.")
    problem: ShortText | None = None
    prompt: Text | None = Field(
        default=None, description="For a confirmation: the question, with the words that mean yes."
    )
    step: ShortText | None = Field(
        default=None, description="For a goal with several steps: the name of the step. The other values are its own."
    )
    place: ShortText | None = Field(default=None, description="The place of the step in its goal, such as `2 of 3`.")
    preview: GoalPreview | None = Field(
        default=None, description="What the action would do, as computed when the question was asked."
    )
    prompt_language: LanguageTag | None = Field(default=None, description="The language of the question.")


class QuestionView(Contract):
    """The information for a person's decision. To see the diff of a plan, read its preview by the proposal id."""

    question: Question
    request: RequestAsked | None = None
    goal: GoalAsked | None = None


class Decision(Contract):
    """A person's decision. `shown_digest` is the digest of what the person saw. A confirmation takes an `answer` in
    words. For a goal with several steps, `step` names the step that the decision is about.
    """

    approved: bool | None = None
    reason: ShortText | None = None
    shown_digest: Digest | None = None
    answer: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    step: Identifier | None = None


class Event(Contract):
    """An event. An event without `id` is not in the ledger: progress, or a notice about the stream itself."""

    id: Position | None
    kind: Kind
    at: Timestamp
    tenant: Identifier | None = None
    seq: Count | None = None
    correlation_id: Identifier | None = None
    task_id: Identifier | None = None
    actor: Identifier | None = None
    payload: Payload | None = Field(
        default=None, description="The payload, for people only. Null also if it is too large."
    )
