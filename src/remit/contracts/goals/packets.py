"""What the Finder says about a goal: exactly one of four packets, told apart by `packet_type`."""

from typing import Annotated, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, Identifier, JsonObject, OneOf, ReasonCode, ShortText, Some, Text


class Packet(Contract):
    """What every packet carries: without its proof and its idempotency key it is refused."""

    packet_id: Identifier
    correlation_id: Identifier
    catalog_snapshot_ref: Identifier
    finder_version: Identifier
    proof_ref: Identifier
    idempotency_key: Identifier


class Candidate(Contract):
    """A simulation that fits. The score is the Finder's own, for the record; nobody may rank by it again."""

    simulation_id: Identifier
    score: Annotated[float, Field(ge=0, le=1)] | None = None


class SimulationMatchPacket(Packet):
    """Candidates in the Finder's order: the first is used, as it is."""

    packet_type: Literal["match"]
    candidates: Some[Candidate]
    fields: JsonObject


class ClarifyPacket(Packet):
    """One question, to be passed on word for word."""

    packet_type: Literal["clarify"]
    question: Annotated[Text, Field(min_length=1)]
    field: Identifier
    attempt: Annotated[int, Field(ge=1, le=1_000)]


class RefusePacket(Packet):
    packet_type: Literal["refuse"]
    reason_code: ReasonCode


class MissingSimulationPacket(Packet):
    """No simulation does this: it goes to Dev Intake, and nothing is dispatched."""

    packet_type: Literal["missing"]
    intent: Annotated[ShortText, Field(min_length=1)]


FinderPacket = Annotated[
    SimulationMatchPacket | ClarifyPacket | RefusePacket | MissingSimulationPacket,
    Field(discriminator="packet_type"),
]

FINDER_PACKET: Final[OneOf[SimulationMatchPacket | ClarifyPacket | RefusePacket | MissingSimulationPacket]] = OneOf(
    FinderPacket,
    "FinderPacket",
    "What the Finder makes of a goal: a match, a question back, a refusal, or a gap to fill.",
)
