"""What can be sent to the API, beyond the documents that the road itself reads.

A document inside (a manifest, a lease, a plan) is only bounded here: the road parses it, and says what it thinks of it.
"""

import json
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, JsonValue

from remit.contracts.base import LARGE, MAX_TEXT, SMALL, Contract, Digest, Identifier, Many, ShortText
from remit.contracts.goals.goal import LanguageTag
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.plan import Plan
from remit.contracts.services.plans import Note
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.identity.models import Role
from remit.parsing import Bounds

MAX_LEASE_SECONDS: Final = 86_400
SURROUNDING_BYTES: Final = 16 << 10
"""Bytes for what stands around a document."""


class _ShownAs:
    """The JSON Schema of a model, for a field that is handed on unread."""

    def __init__(self, model: type[Contract]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, _core: Any, handler: Any) -> dict[str, Any]:
        self._model.model_rebuild()  # it is built when it is first needed, and that may be now
        schema: dict[str, Any] = handler(self._model.__pydantic_core_schema__)
        return schema


def to_bytes(document: dict[str, JsonValue]) -> bytes:
    """Its bytes again, for the road to parse."""
    return json.dumps(document, ensure_ascii=False).encode()


ManifestGiven = Annotated[dict[str, JsonValue], _ShownAs(TaskManifest)]
LeaseGiven = Annotated[dict[str, JsonValue], _ShownAs(LeaseToken)]
PlanGiven = Annotated[dict[str, JsonValue], _ShownAs(Plan)]


class TaskRun(Contract):
    """A task and the lease that lets it run."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=2 * SMALL.max_bytes, max_items=2 * SMALL.max_items)

    manifest: ManifestGiven
    lease: LeaseGiven


class LeaseWish(Contract):
    """Which task, and for how long it may be run."""

    bounds: ClassVar[Bounds] = SMALL

    manifest: ManifestGiven
    seconds: Annotated[int, Field(ge=1, le=MAX_LEASE_SECONDS)] = 300


class PlanProposal(Contract):
    """A plan that somebody shall say yes to, and what its proposer says of it."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=LARGE.max_bytes + SURROUNDING_BYTES, max_items=LARGE.max_items)

    plan: PlanGiven
    note: Note | None = None


class PlanDecision(Contract):
    """A person's answer to a proposed plan. A yes names what was shown, and what the plan needs beyond it."""

    approved: bool
    preview_digest: Digest | None = Field(default=None, description="Of the preview that was looked at; for a yes.")
    allow: Approvals = Approvals(protected=(), executable=(), content=(), irreversible=())
    reason: ShortText | None = None
    even_if_it_fails: bool = False


class PlanUndo(Contract):
    """How a run is taken back: whole, or some checkpoints of it; `force` replaces what was changed since, and names the
    look at that.
    """

    force: bool = False
    drift_digest: Digest | None = Field(
        default=None, description="Of the drifted files that were looked at; for `force`, where there are any."
    )
    checkpoints: Many[Identifier] = ()


class Withdrawal(Contract):
    """Why something shall not go on."""

    reason: ShortText | None = None


class Nothing(Contract):
    """An empty object: there is nothing more to say."""


class GoalAsk(Contract):
    """What a user wants, in his words. `reply_to` is the goal that asked back, and the words are the answer."""

    bounds: ClassVar[Bounds] = SMALL

    utterance: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    language: LanguageTag = "en"
    correlation_id: Identifier | None = None
    reply_to: Identifier | None = None


class GoalReply(Contract):
    """The user's yes or no, in words of his language that the question names."""

    answer: Annotated[str, Field(min_length=1, max_length=200)]


class Invite(Contract):
    """Who is let in, as what, and for how long the link counts. `user` of `tenant` is whom he asks for as a user."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role
    user: Identifier | None = None
    tenant: Identifier | None = None
    seconds: Annotated[int, Field(ge=60, le=7 * 86_400)] = 900


class PersonNamed(Contract):
    """By the whole id, or by the name in an invitation."""

    name: Identifier


class Promotion(Contract):
    """`definition_digest` is of the simulation as it was read: what was read is what is promoted."""

    definition_digest: Digest
    reason: ShortText | None = None


class VerifyWish(Contract):
    """Which chain is checked; without one, all."""

    tenant: Identifier | None = None
