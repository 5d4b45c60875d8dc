"""Builds one of the four packets, with its proof, from the Finder's result. Ids and keys are digests of the request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import JsonValue

from remit.contracts.goals.finder_proof import FinderProof
from remit.contracts.goals.packets import (
    FINDER_PACKET,
    ClarifyPacket,
    MissingSimulationPacket,
    PacketStep,
    RefusePacket,
    SimulationMatchPacket,
)
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError

Packet = SimulationMatchPacket | ClarifyPacket | RefusePacket | MissingSimulationPacket


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The state of a thread after a question: simulation, known values, open field, and number of questions."""

    simulation_id: str
    fields: Mapping[str, JsonValue]
    awaiting: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """The text of a user with its language, and the question that it answers if there is one."""

    correlation_id: str
    tenant_id: str
    user_id: str
    thread_id: str
    language_tag: str
    utterance: str
    thread: ThreadState | None = None


@dataclass(frozen=True, slots=True)
class PacketDraft:
    """A result of the Finder without its ids."""

    outcome: Literal["match", "clarify", "refuse", "missing"]
    considered: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    fields: Mapping[str, JsonValue] = field(default_factory=dict)
    reason_code: str | None = None
    intent: str = ""
    simulation_id: str | None = None
    question: str = ""
    awaiting: str | None = None
    attempt: int = 0
    steps: tuple[PacketStep, ...] = ()
    """The steps of the first candidate, if it is composite."""
    bonus: Mapping[str, int] = field(default_factory=dict)
    """The learned points by simulation, and the last entry of the ledger from which they follow."""
    learned_until: int | None = None


def seal_packet(
    request: Utterance, catalogue_ref: str, version: str, draft: PacketDraft
) -> tuple[Packet, dict[str, Any]]:
    """Build the packet and its proof. They do not contain the utterance, except for the masked intent of a gap."""
    proof = _proof(request, catalogue_ref, version, draft)
    request_tree = {name: proof[name] for name in _REQUEST}
    tree = {
        "packet_type": draft.outcome,
        "correlation_id": request.correlation_id,
        "catalog_snapshot_ref": catalogue_ref,
        "finder_version": version,
        "proof_ref": digest(proof),
        "idempotency_key": digest({"finder_request": request_tree}),
        **_packet_fields(draft),
    }
    packet = FINDER_PACKET.from_tree({**tree, "packet_id": digest({"finder_packet": tree})}, source="the Finder")
    return packet, proof


def after_clarify(packet: ClarifyPacket, proof: Mapping[str, Any]) -> ThreadState:
    """Return the state for the next cycle of the thread. The packet cannot contain it, so it is in the proof.

    Raises:
        RefusedError: The proof is not the one of this question.
    """
    if digest(dict(proof)) != packet.proof_ref:
        raise _wrong_proof_error(packet)
    stored = FinderProof.from_tree(dict(proof), source="the proof of a question")
    if stored.outcome != "clarify" or stored.simulation_id is None or stored.awaiting != packet.field:
        raise _wrong_proof_error(packet)
    return ThreadState(stored.simulation_id, dict(stored.fields), packet.field, packet.attempt)


_REQUEST = (
    "finder_version",
    "catalog_snapshot_ref",
    "correlation_id",
    "tenant_id",
    "user_id",
    "thread_id",
    "language_tag",
    "utterance_digest",
    "earlier_thread_digest",
)


def _packet_fields(draft: PacketDraft) -> dict[str, Any]:
    if draft.outcome == "match":
        candidates = [{"simulation_id": name, "score": score / 10_000} for name, score, _ in draft.considered]
        steps = {"steps": [step.tree() for step in draft.steps]} if draft.steps else {}
        return {"candidates": candidates, "fields": dict(draft.fields), **steps}
    if draft.outcome == "clarify":
        return {"question": draft.question, "field": draft.awaiting, "attempt": draft.attempt}
    return {"reason_code": draft.reason_code} if draft.outcome == "refuse" else {"intent": draft.intent}


def _proof(request: Utterance, catalogue_ref: str, version: str, draft: PacketDraft) -> dict[str, Any]:
    tree = {
        "version": 1,
        "finder_version": version,
        "catalog_snapshot_ref": catalogue_ref,
        "correlation_id": request.correlation_id,
        "tenant_id": request.tenant_id,
        "user_id": request.user_id,
        "thread_id": request.thread_id,
        "language_tag": request.language_tag,
        "utterance_digest": _text_digest(request.utterance),
        "earlier_thread_digest": _thread_digest(request.thread),
        "outcome": draft.outcome,
        "reason_code": draft.reason_code,
        "considered": [
            {"simulation_id": name, "score": score, "words": list(words), "bonus": draft.bonus.get(name, 0)}
            for name, score, words in draft.considered
        ],
        "simulation_id": draft.simulation_id,
        "awaiting": draft.awaiting,
        "attempt": draft.attempt,
        "fields": dict(draft.fields) if draft.outcome == "clarify" else {},
        "learned_until": draft.learned_until,
    }
    return FinderProof.from_tree(tree, source="the Finder").tree()


def _text_digest(text: str) -> str:
    # Half a surrogate pair has no canonical form, but the refusal of such a text needs a proof too.
    return digest({"utterance": text.encode("utf-8", "backslashreplace").decode()})


def _thread_digest(thread: ThreadState | None) -> str | None:
    if thread is None:
        return None
    return digest(
        {
            "simulation_id": thread.simulation_id,
            "fields": dict(thread.fields),
            "awaiting": thread.awaiting,
            "attempt": thread.attempt,
        }
    )


def _wrong_proof_error(packet: ClarifyPacket) -> RefusedError:
    return RefusedError(
        Reason.EVIDENCE_INVALID,
        "this is not the proof of the question",
        where=f"packet {packet.packet_id}",
        next_step="Ask again, in a new thread.",
    )
