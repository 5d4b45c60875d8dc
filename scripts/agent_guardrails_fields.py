"""Guardrails for fields that must exist and must be passed on: the proofs of a packet, and the refs of a step."""

import ast
from collections.abc import Iterator
from typing import Final

from scripts.agent_guardrails_sources import (
    Sources,
    Violation,
    calls_inside,
    construction_in,
    field_of,
    is_required,
    keyword_of,
    missing_violation,
    union_in,
)

PACKETS: Final = ("SimulationMatchPacket", "ClarifyPacket", "RefusePacket", "MissingSimulationPacket")
PROOFS: Final = (
    "packet_id",
    "correlation_id",
    "catalog_snapshot_ref",
    "finder_version",
    "proof_ref",
    "idempotency_key",
)
REQUIRED: Final = (
    ("contracts/goals/dispatch.py", "DispatchEnvelope", "policy_snapshot_ref", "Identifier"),
    ("contracts/goals/dispatch.py", "DispatchEnvelope", "artifact_fingerprint_bundle_ref", "Identifier"),
    ("contracts/goals/goal.py", "AgentStep", "policy_snapshot_version", "Identifier"),
    ("contracts/goals/goal.py", "AgentExecutionPlan", "policy_snapshot_ref", "Identifier"),
    ("goals/decisions.py", "DecisionRecord", "policy_snapshot_ref", "str"),
)
PASSED_ON: Final = (
    ("goals/recording.py", "step_row", "StepRow", "policy_snapshot_ref", "record.policy_snapshot_ref"),
    (
        "goals/recording.py",
        "step_row",
        "StepRow",
        "artifact_fingerprint_bundle_ref",
        "record.artifact_fingerprint_bundle_ref",
    ),
    ("goals/planner.py", "build_envelope", "DispatchEnvelope", "policy_snapshot_ref", "evidence.policy.ref"),
    ("goals/planner.py", "build_envelope", "DispatchEnvelope", "artifact_fingerprint_bundle_ref", "artifacts_ref"),
    ("goals/planner.py", "_step", "AgentStep", "policy_snapshot_version", "evidence.policy.ref"),
    ("goals/planner.py", "build_plan", "AgentExecutionPlan", "policy_snapshot_ref", "evidence.policy.ref"),
    ("goals/decisions.py", "build_decision", "DecisionRecord", "policy_snapshot_ref", "evidence.policy.ref"),
)


REFS: Final = frozenset(
    {
        *("finder_packet_ref", "policy_snapshot_ref", "catalog_snapshot_ref", "artifact_fingerprint_bundle_ref"),
        "policy_snapshot_version",
    }
)
ONLY_IN: Final = {"AgentStep": ("goals/planner.py", "_step"), "StepRow": ("goals/recording.py", "step_row")}
"""The only function that creates each. Every other row is a copy of one with the refs of its decision."""


def check_fields(sources: Sources) -> Iterator[Violation]:
    yield from _packets(sources)
    yield from _refs(sources)


def _packets(sources: Sources) -> Iterator[Violation]:
    module = sources.module("contracts/goals/packets.py")
    packet = module.shape("Packet") if module else None
    if module is None or packet is None:
        yield missing_violation("packet-proof", "contracts/goals/packets.py", "Packet")
        return
    next_step = "Declare it in Packet, as an Identifier without a default."
    for name in PROOFS:
        if not is_required(packet, name, "Identifier"):
            found = field_of(packet, name) or packet
            yield module.breach("packet-proof", found, f"{name} is not required", next_step)
    for kind in PACKETS:
        shape = module.shape(kind)
        bases = [ast.unparse(one) for one in shape.bases] if isinstance(shape, ast.ClassDef) else []
        if bases != ["Packet"]:
            yield module.breach("packet-proof", shape, f"{kind} is not a Packet", "Derive it from Packet alone.")
        for name in PROOFS:
            if (again := field_of(shape, name)) is not None:
                yield module.breach("packet-proof", again, f"{kind} declares {name} again", next_step)
    union = module.value("FinderPacket")
    if union_in(union) != set(PACKETS):
        yield module.breach("packet-proof", union, "FinderPacket is not the union of the four kinds", "Keep it closed.")


def _refs(sources: Sources) -> Iterator[Violation]:
    rule = "step-refs"
    for file, name, member, kind in REQUIRED:
        module = sources.module(file)
        shape = module.shape(name) if module else None
        if module is None or shape is None:
            yield missing_violation(rule, file, name)
        elif not is_required(shape, member, kind):
            what = f"{name}.{member} is not required"
            yield module.breach(
                rule, field_of(shape, member) or shape, what, f"Declare it as {kind}, without a default."
            )
    for file, function, name, member, value in PASSED_ON:
        module = sources.module(file)
        made = construction_in(module, function, name) if module else None
        if module is None or made is None:
            yield missing_violation(rule, file, f"{name}(...) in {function}")
        elif keyword_of(made, member) != value:
            what = f"{function} does not pass on {member}"
            yield module.breach(rule, made, what, f"Write {member}={value}.")
    yield from _only_whole_rows(sources)
    rows = sources.module("ledger/goal_tables.py")
    row = rows.shape("StepRow") if rows else None
    for member in ("policy_snapshot_ref", "artifact_fingerprint_bundle_ref"):
        if rows is None or field_of(row, member) is None:
            yield missing_violation(rule, "ledger/goal_tables.py", f"StepRow.{member}")


def _only_whole_rows(sources: Sources) -> Iterator[Violation]:
    """Check that steps and rows are made in one place each, and that no copy loses a ref."""
    for module in sources.core():
        for call in module.calls:
            end = module.last_name(call.func)
            where = ONLY_IN.get(end)
            if where is not None and id(call) not in calls_inside(module, where[1]):
                what = f"it creates {'an' if end.startswith('A') else 'a'} {end}"
                yield module.breach("step-refs", call, what, f"Only {where[1]} in {where[0]} may create one.")
            for one in call.keywords:
                if one.arg in REFS and isinstance(one.value, ast.Constant):
                    yield module.breach(
                        "step-refs", call, f"it sets {one.arg} to a constant", "Keep that of the decision."
                    )
