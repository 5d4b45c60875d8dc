"""Guardrails that run code: they call the gates and parse contracts, and check that each result is the safe one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.goal import AgentGoalRequest, AgentStep, ConfirmState
from remit.contracts.goals.packets import FINDER_PACKET
from remit.contracts.goals.simulation import Simulation
from remit.core.errors import RemitError
from remit.core.ids import parse_time
from remit.goals import decisions, gates, recording
from remit.goals.access.policy import build_access_policy
from remit.goals.catalogue.catalogue import CatalogueEntry, build_catalogue, check_files, entry_digest
from remit.goals.composite.layout import planned_steps
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.gates import Evidence
from remit.ledger.goal_queries import PromotedState
from scripts.agent_guardrails_catalogues import catalogue_files
from scripts.agent_guardrails_fields import PROOFS
from scripts.agent_guardrails_sources import Violation

AT: Final = "2026-01-01T00:00:00Z"
KINDS: Final[dict[str, dict[str, Any]]] = {
    "match": {"candidates": [{"simulation_id": "look"}], "fields": {}},
    "clarify": {"question": "Which one?", "field": "name", "attempt": 1},
    "refuse": {"reason_code": "NOT_A_REQUEST"},
    "missing": {"intent": "order a pizza"},
}
_LOOK: Final[dict[str, Any]] = {
    "id": "look",
    "version": "1",
    "title": "Look",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "look",
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
_ALL: Final = '@id("all") permit (principal, action, resource);'
_MOVE: Final = {**_LOOK, "id": "move", "impact": "impactful"}
_BACK: Final = {**_LOOK, "id": "back"}
_FIRST: Final = {**_LOOK, "id": "first", "rollback": "back"}
_BOTH: Final = {
    **_LOOK,
    "id": "both",
    "binding": {
        "type": "composite",
        "steps": [{"id": "a", "simulation": "first"}, {"id": "b", "simulation": "look", "depends_on": ["a"]}],
    },
}


def check_running_code(root: Path) -> Iterator[Violation]:
    yield from _missing()
    yield from _rollback()
    yield from _bindings()
    yield from _packets()
    yield from _refs()
    yield from _steps()
    yield from _files(root)


def packet(kind: str, **changes: Any) -> dict[str, Any]:
    return {"packet_type": kind, **dict.fromkeys(PROOFS, "x"), **KINDS[kind], **changes}


def evidence(kind: str, *simulations: dict[str, Any], simulation_id: str = "look") -> Evidence:
    """Return the evidence of a goal, for a user with access to everything. All simulations are ACTIVE."""
    known = {each.id: each for each in (Simulation.from_tree(tree) for tree in (_LOOK, *simulations))}
    digests = {each.id: entry_digest(each, known) for each in known.values()}
    states = {
        each.id: PromotedState(each.id, each.version, digests[each.id], "ACTIVE", "os:ann", AT, "entry")
        for each in known.values()
    }
    catalogue = build_catalogue("acme", tuple(known.values()), states)
    policy = build_access_policy({"a.cedar": _ALL}, {"acme": ["mia"]}, ["look"])
    more = {"candidates": [{"simulation_id": simulation_id}]} if kind == "match" else {}
    found = FINDER_PACKET.from_tree(packet(kind, catalog_snapshot_ref=catalogue.ref, correlation_id="c", **more))
    return Evidence("acme", "mia", "c", "en", found, catalogue, policy, load_lexicon())


def decide_goal(evidence_of_goal: Evidence) -> decisions.GoalDecision:
    goal = AgentGoalRequest(
        correlation_id="c",
        tenant_id="acme",
        user_id="mia",
        thread_id="c",
        raw_user_utterance="",
        language_tag="en",
        normalized_intent="",
        sim_finder_packet=evidence_of_goal.packet,
        confirm_state=ConfirmState(status="NONE"),
        idempotency_key="x",
        attempt_counter=0,
    )
    return decisions.build_decision(
        goal, decisions.build_goal_documents(goal), evidence_of_goal, gates.decide(evidence_of_goal), (), AT
    )


def _missing() -> Iterator[Violation]:
    for kind in ("missing", "clarify", "refuse"):
        made = decide_goal(evidence(kind))
        if made.verdict.dispatches or made.envelope is not None or made.record.envelope_ref is not None:
            yield _breach(
                "missing-dispatch",
                gates,
                f"a {kind} packet is decided as {made.verdict.event}",
                "Decide an event that stops it.",
            )
    event = gates.decide(evidence("missing")).event
    if event != "ESCALATED":
        yield _breach("missing-dispatch", gates, f"a missing packet is decided as {event}", "Decide ESCALATED.")


def _rollback() -> Iterator[Violation]:
    for impact in ("impactful", "side_effecting", "irreversible"):
        for named in ({}, {"rollback": "nobody"}):
            evidence_of_goal = evidence("match", {**_MOVE, "impact": impact, **named}, simulation_id="move")
            verdict = gates.decide(evidence_of_goal)
            if (verdict.event, verdict.reason_code) != ("REFUSED", "ROLLBACK_PLAN_MISSING"):
                what = f"{impact} without a rollback is decided as {verdict.event} ({verdict.reason_code})"
                yield _breach("rollback", gates, what, "Refuse with ROLLBACK_PLAN_MISSING.")


def _bindings() -> Iterator[Violation]:
    for kind in ("tool", "function", "mcp", "shell", "http"):
        tree = {**_LOOK, "binding": {"type": kind, "name": "x"}}
        if _is_accepted(Simulation.from_tree, tree):
            where = "src/remit/contracts/goals/simulation.py"
            yield Violation(
                "tool-dispatch", where, 1, f"a binding to a {kind} is accepted", "Keep the set of bindings closed."
            )


def _packets() -> Iterator[Violation]:
    where = "src/remit/contracts/goals/packets.py"
    for kind in KINDS:
        whole = packet(kind)
        for name in PROOFS:
            incomplete = {key: value for key, value in whole.items() if key != name}
            for tree in (incomplete, {**whole, name: ""}, {**whole, name: None}):
                if _is_accepted(FINDER_PACKET.from_tree, tree):
                    what = f"a {kind} packet without {name} is accepted"
                    yield Violation("packet-proof", where, 1, what, "Require it, and refuse an empty one.")
        if not _is_accepted(FINDER_PACKET.from_tree, whole):
            yield Violation(
                "packet-proof",
                where,
                1,
                f"a complete {kind} packet is refused",
                "Correct the example packet of the guardrail.",
            )


def _refs() -> Iterator[Violation]:
    made = decide_goal(evidence("match"))
    if made.envelope is None or made.step is None:
        yield _breach("step-refs", decisions, "a step that may be dispatched has no envelope", "Create the envelope.")
        return
    row = recording.step_row(_Clock(), "acme", made, "PLANNED")  # type: ignore[arg-type]
    shown = (("the record", made.record), ("the row", row), ("the envelope", made.envelope))
    for what, holder in shown:
        for name in ("policy_snapshot_ref", "artifact_fingerprint_bundle_ref"):
            if not getattr(holder, name):
                yield _breach("step-refs", decisions, f"{what} of a step has no {name}", "Pass it on.")
    for model, tree, members in (
        (DispatchEnvelope, made.envelope.tree(), ("policy_snapshot_ref", "artifact_fingerprint_bundle_ref")),
        (AgentStep, made.step.tree(), ("policy_snapshot_version",)),
    ):
        for name in members:
            if _is_accepted(model.from_tree, {key: value for key, value in tree.items() if key != name}):
                yield _breach("step-refs", decisions, f"{model.__name__} is accepted without {name}", "Require it.")


def _steps() -> Iterator[Violation]:
    """Check a goal with two steps: its packet must name exactly the promoted ones, and each step needs a rollback."""
    found = evidence("match", _BACK, _FIRST, _BOTH, simulation_id="both")
    steps = planned_steps(known_entry(found, "both"), found.catalogue)
    listed = [
        {"step": each.name, "simulation": each.simulation_id, "digest": known_entry(found, each.simulation_id).digest}
        for each in steps
    ]
    first, second = listed
    for what, given in (
        ("reordered", [second, first]),
        ("left out", [first]),
        ("added", [first, second, {**second, "step": "c"}]),
        ("of another digest", [{**first, "digest": second["digest"]}, second]),
        ("of another simulation", [{**first, "simulation": "look", "digest": second["digest"]}, second]),
        ("missing", []),
    ):
        verdict = gates.decide(_of_step(found, given, steps[0].step_id))
        if (verdict.event, verdict.reason_code) != ("REFUSED", "PACKET_INVALID"):
            got = f"{verdict.event} ({verdict.reason_code})"
            yield _breach(
                "sequence", gates, f"a packet whose steps are {what} is decided as {got}", "Refuse with PACKET_INVALID."
            )
    made = decide_goal(_of_step(found, listed, steps[0].step_id))
    if made.envelope is None or made.envelope.simulation_id != "first":
        named = made.envelope.simulation_id if made.envelope is not None else "nothing"
        yield _breach("tool-dispatch", decisions, f"the step first dispatches {named}", "Take it from the packet.")
    verdict = gates.decide(_of_step(found, listed, steps[1].step_id))
    if (verdict.event, verdict.reason_code) != ("REFUSED", "ROLLBACK_PLAN_MISSING"):
        what = f"a step without a rollback is decided as {verdict.event} ({verdict.reason_code})"
        yield _breach("rollback", gates, what, "Refuse with ROLLBACK_PLAN_MISSING.")


def known_entry(found: Evidence, simulation_id: str) -> CatalogueEntry:
    entry = found.catalogue.find(simulation_id)
    if entry is None:
        raise TypeError("the example catalogue has this simulation")
    return entry


def _of_step(found: Evidence, steps: list[dict[str, Any]], step_id: str) -> Evidence:
    packet_tree = {**found.packet.tree(), "steps": steps}
    return replace(found, packet=FINDER_PACKET.from_tree(packet_tree), step_id=step_id)


class _Clock:
    """The part of a transaction that a row needs."""

    def time_in(self, _: str) -> Any:
        return parse_time(AT)


def _files(root: Path) -> Iterator[Violation]:
    """Check the rollbacks and the unreadable parts of catalogue files. Connections depend on the reader's workspace."""
    for file in catalogue_files(root):
        for found in check_files(root, [file])[1]:
            if found.field == "rollback" or not found.simulation:
                yield Violation("rollback", file, 1, f"{found.where}: {found.what}", found.next_step)


def _is_accepted(parse: Callable[[Any], Any], tree: Any) -> bool:
    try:
        parse(tree)
    except RemitError:
        return False
    return True


def _breach(rule: str, module: Any, what: str, next_step: str) -> Violation:
    parts = module.__name__.split(".")
    return Violation(rule, f"src/{'/'.join(parts)}.py", 1, what, next_step)
