"""The answer of the Finder about a goal: exactly one of four packets. `packet_type` names the kind."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from remit.contracts.base import (
    Contract,
    Digest,
    ExtendedContract,
    Identifier,
    JsonObject,
    Many,
    Name,
    OneOf,
    ReasonCode,
    ShortText,
    Some,
    Text,
)

MAX_STEPS: Final = 20


class Packet(ExtendedContract):
    """The fields of every packet. A packet without its proof or its idempotency key is refused."""

    packet_id: Identifier
    correlation_id: Identifier
    catalog_snapshot_ref: Identifier
    finder_version: Identifier
    proof_ref: Identifier
    idempotency_key: Identifier


class Candidate(Contract):
    """A simulation that fits. The score is the Finder's own, for the ledger. Remit does not rank by it again."""

    simulation_id: Identifier
    score: Annotated[float, Field(ge=0, le=1)] | None = None


class PacketStep(Contract):
    """A step of a composite simulation: its name, its simulation, and the digest of that simulation."""

    step: Name
    simulation: Name
    simulation_digest: Digest = Field(alias="digest")


class SimulationMatchPacket(Packet):
    """Candidates in the Finder's order. Remit uses the first one. `steps` are those of a composite simulation."""

    added_later: ClassVar[frozenset[str]] = frozenset({"steps"})

    packet_type: Literal["match"]
    candidates: Some[Candidate]
    fields: JsonObject
    steps: Annotated[Many[PacketStep], Field(max_length=MAX_STEPS)] = Field(
        default=(), description="The steps of a composite simulation, in the order in which Remit runs them."
    )


class ClarifyPacket(Packet):
    """One question for the user, passed on word for word."""

    packet_type: Literal["clarify"]
    question: Annotated[Text, Field(min_length=1)]
    field: Identifier
    attempt: Annotated[int, Field(ge=1, le=1_000)]


class RefusePacket(Packet):
    """The Finder refuses the goal, with its own reason code."""

    packet_type: Literal["refuse"]
    reason_code: ReasonCode


class MissingSimulationPacket(Packet):
    """No simulation covers the goal. It is listed for the people who write simulations, and nothing is dispatched."""

    packet_type: Literal["missing"]
    intent: Annotated[ShortText, Field(min_length=1)]


FinderPacket = Annotated[
    SimulationMatchPacket | ClarifyPacket | RefusePacket | MissingSimulationPacket,
    Field(discriminator="packet_type"),
]

FINDER_PACKET: Final[OneOf[SimulationMatchPacket | ClarifyPacket | RefusePacket | MissingSimulationPacket]] = OneOf(
    FinderPacket,
    "FinderPacket",
    "The answer of the Finder to a goal: a match, a question, a refusal, or a missing simulation.",
)
