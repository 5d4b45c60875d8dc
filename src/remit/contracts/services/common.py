"""What the desk answers, whichever way in was taken: HTTP, MCP and the console hand these out as they are."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, Identifier, JsonObject, Many, ShortText, Text, Timestamp
from remit.contracts.browser.browser import ActionResult, FieldMap, Url
from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.contracts.ledger import Kind, Payload
from remit.contracts.tasks.result import ExecutionResult
from remit.core.errors import Reason, RemitError

T = TypeVar("T")

Cursor = Annotated[str, Field(min_length=1, max_length=1_000)]
"""Where a list goes on. Opaque: made by one answer, given back with the next request."""

Position = Annotated[str, Field(min_length=1, max_length=65_536)]
"""Where a stream of events goes on: how far each chain was told."""

Link = Annotated[str, Field(max_length=4_096)]

QuestionKind = Literal["request", "plan", "goal", "confirmation"]
QuestionState = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID", "USED"]
WaitingFor = Literal["confirmation", "approval", "clarification"]


class ErrorTold(Contract):
    """Why something was refused or failed: the word for it, what, where, and what to do next. Masked."""

    code: Reason = Field(strict=False)
    what: Text
    where: Text
    next_step: Text


def describe_error(problem: RemitError) -> ErrorTold:
    return ErrorTold(code=problem.reason, what=problem.what, where=problem.where, next_step=problem.next_step)


class Page(Contract, Generic[T]):
    """A part of a list, and where it goes on. There may be more although a page is not full."""

    items: Many[T]
    next: Cursor | None = None


class Progress(Contract):
    """How far running work is. Known to the process that does it, and to nobody after that."""

    phase: ShortText
    done: Count
    total: Count | None = None


class Waiting(Contract):
    """What a person has to answer before this goes on, until when, and where."""

    kind: QuestionKind
    id: Identifier
    tenant: Identifier
    what: Text
    expires: Timestamp | None
    link: Link | None = None


class TaskAnswer(Contract):
    """`refused` says that nothing was claimed or done; `stored`, that it is the result of an earlier call."""

    state: Literal["running", "done", "refused"]
    task_id: Identifier
    result: ExecutionResult | None = None
    stored: bool = False
    refused: ErrorTold | None = None
    progress: Progress | None = None
    withheld: Text | None = Field(
        default=None, description="Why an agent is shown less than a person; null: nothing is withheld."
    )


class BrowseAnswer(Contract):
    """`waiting` is what a person is asked for; the same action again, or a look at it by its id, tells what came."""

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
    """Where a goal stands. `next` says who can do what about it now."""

    state: Literal["running", "waiting", "done", "failed", "refused"]
    tenant_id: Identifier
    correlation_id: Identifier
    user_id: Identifier
    event: ShortText = Field(description="The goal's last event; empty before the first.")
    text: Text = Field(description="What the user is told, or asked.")
    outcome: AgentExecutionOutcome | None = None
    waiting_for: WaitingFor | None = None
    waiting: Waiting | None = None
    why: Text | None = None
    can_take_back: bool = False
    next: Many[ShortText] = ()


class Question(Contract):
    """One line of the inbox: what waits for a person; or did, and how it was closed."""

    kind: QuestionKind
    id: Identifier
    tenant: Identifier
    title: Text
    asked_by: ShortText
    authority: ShortText = Field(description="By what it is asked: a token, or a user and the policies.")
    risk: ShortText | None
    created_at: Timestamp
    expires_at: Timestamp | None
    state: QuestionState = "PENDING"
    decided_by: ShortText | None = None
    decided_at: Timestamp | None = None
    reason: ShortText | None = None
    link: Link | None = None


class RequestAsked(Contract):
    """What an agent wants sent, typed or called: as it will be, with what is secret in it masked.

    Of a browser's request `url` is there, of a call of a governed function its `arguments` and `way_back`.
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
    request_digest: Digest = Field(description="To be given with a yes: the request that was shown.")
    has_picture: bool


class GoalAsked(Contract):
    """What somebody asked for, and what would be done: as it was recorded, not as anybody words it."""

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
    problem: ShortText | None = None
    prompt: Text | None = Field(default=None, description="Of a confirmation: the question, with the words for yes.")


class QuestionView(Contract):
    """All that a person should see before he answers. A plan's diff is looked at by its proposal id."""

    question: Question
    request: RequestAsked | None = None
    goal: GoalAsked | None = None


class Decision(Contract):
    """A person's answer. `shown_digest` is of what he was shown; a confirmation takes an `answer` in words."""

    approved: bool | None = None
    reason: ShortText | None = None
    shown_digest: Digest | None = None
    answer: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class Event(Contract):
    """Something that happened. Without `id` it is not in the record: progress, or a word about the stream itself."""

    id: Position | None
    kind: Kind
    at: Timestamp
    tenant: Identifier | None = None
    seq: Count | None = None
    correlation_id: Identifier | None = None
    task_id: Identifier | None = None
    actor: Identifier | None = None
    payload: Payload | None = Field(default=None, description="For people; null where it is left out for its size.")
