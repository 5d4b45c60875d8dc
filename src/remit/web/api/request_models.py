"""The request bodies of the API, except the documents that the engine parses.

A document inside a body (a manifest, a lease, a plan) is only limited in size here. The engine parses and checks it.
"""

import json
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, JsonValue

from remit.contracts.base import LARGE, MAX_TEXT, SMALL, Contract, Digest, Identifier, Many, ShortText
from remit.contracts.goals.goal import DEFAULT_LANGUAGE, LanguageTag
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.plan import Plan
from remit.contracts.services.plans import Note
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.identity.models import Role
from remit.parsing import Bounds

MAX_LEASE_SECONDS: Final = 86_400
SURROUNDING_BYTES: Final = 16 << 10
"""Bytes for the fields around a document."""


class _ShownAs:
    """The JSON Schema of a model, for a field that is passed on unparsed."""

    def __init__(self, model: type[Contract]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, _core: Any, handler: Any) -> dict[str, Any]:
        self._model.model_rebuild()  # a model is built at its first use, which may be now
        schema: dict[str, Any] = handler(self._model.__pydantic_core_schema__)
        return schema


def to_bytes(document: dict[str, JsonValue]) -> bytes:
    """Return the document as bytes, for the engine to parse."""
    return json.dumps(document, ensure_ascii=False).encode()


ManifestGiven = Annotated[dict[str, JsonValue], _ShownAs(TaskManifest)]
LeaseGiven = Annotated[dict[str, JsonValue], _ShownAs(LeaseToken)]
PlanGiven = Annotated[dict[str, JsonValue], _ShownAs(Plan)]


class TaskRun(Contract):
    """A task and the lease that permits it."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=2 * SMALL.max_bytes, max_items=2 * SMALL.max_items)

    manifest: ManifestGiven
    lease: LeaseGiven


class LeaseWish(Contract):
    """A request for a lease: the task, and for how long it may run."""

    bounds: ClassVar[Bounds] = SMALL

    manifest: ManifestGiven
    seconds: Annotated[int, Field(ge=1, le=MAX_LEASE_SECONDS)] = 300


class PlanProposal(Contract):
    """A plan that a person is asked to approve, with a note of the proposer."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=LARGE.max_bytes + SURROUNDING_BYTES, max_items=LARGE.max_items)

    plan: PlanGiven
    note: Note | None = None


class PlanDecision(Contract):
    """A person's decision about a proposed plan. An approval names the preview and everything else that it allows."""

    approved: bool
    preview_digest: Digest | None = Field(
        default=None, description="The digest of the preview that the person saw. Needed to approve."
    )
    allow: Approvals = Approvals(protected=(), executable=(), content=(), irreversible=())
    reason: ShortText | None = None
    even_if_it_fails: bool = False


class PlanUndo(Contract):
    """A rollback of a run: the whole run, or the listed checkpoints.

    `force` also replaces files that changed since. It needs `drift_digest` if there are such files.
    """

    force: bool = False
    drift_digest: Digest | None = Field(
        default=None, description="The digest of the drifted files, from the rollback preview. Needed for `force`."
    )
    checkpoints: Many[Identifier] = ()


class Withdrawal(Contract):
    """The reason to stop or withdraw something."""

    reason: ShortText | None = None


class Nothing(Contract):
    """An empty object, because the request needs no data."""


class GoalAsk(Contract):
    """A request in the user's own words. `reply_to` names a goal that asked a question, and the words answer it."""

    bounds: ClassVar[Bounds] = SMALL

    utterance: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    language: LanguageTag = DEFAULT_LANGUAGE
    correlation_id: Identifier | None = None
    reply_to: Identifier | None = None


class GoalReply(Contract):
    """The user's answer, in a word of their language that the question lists."""

    answer: Annotated[str, Field(min_length=1, max_length=200)]
    step: Identifier | None = Field(
        default=None, description="The id of the step that the answer is for. Required if the goal has several steps."
    )


class Invite(Contract):
    """A person to invite, the role, and the lifetime of the link. The person requests goals as `user` of `tenant`."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role
    user: Identifier | None = None
    tenant: Identifier | None = None
    seconds: Annotated[int, Field(ge=60, le=7 * 86_400)] = 900


class PersonNamed(Contract):
    """A person, named by the whole id or by the name in an invitation."""

    name: Identifier


class Promotion(Contract):
    """A decision to promote. `definition_digest` is the digest that was read, so that nothing else is promoted."""

    definition_digest: Digest
    reason: ShortText | None = None


class VerifyWish(Contract):
    """The chain to verify. Without a tenant, all chains are verified."""

    tenant: Identifier | None = None
