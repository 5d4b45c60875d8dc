"""Replay of the moves of a goal with several steps: retries, the values that steps pass on, and how the goal ended.

The decisions of the gates are replayed one by one. This module checks what connects them, from the rows before each.
"""

from collections.abc import Iterator, Sequence

from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.contracts.goals.simulation import CompositeBinding
from remit.core.errors import RemitError
from remit.goals.composite.layout import WHOLE, PlannedStep, is_undo, planned_steps, rollback_id_of, rolled_back_id
from remit.goals.composite.progress import End, Move, RetryStep, RollBackStep, RunStep, next_move
from remit.goals.decisions import DecisionRecord
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore
from remit.ledger.goal_queries import Recorded
from remit.ledger.projections import TRANSITIONS


def find_move_problems(
    documents: DocumentStore, past: PastRules, record: DecisionRecord, rows: Sequence[Recorded]
) -> dict[int, str]:
    """Return what is wrong with a row as the move that follows the rows before it, by the place of the row.

    Args:
        documents: The documents of the tenant.
        past: The rules of past decisions.
        record: The first decision about the goal. Its packet names the composite.
        rows: All rows of the goal, in order.
    """
    if {(each.row.step_id, each.row.event) for each in rows} == {(WHOLE, "REFUSED")}:
        return {}  # the gates refused the packet, and no step was planned
    try:
        steps, keep = _layout(documents, past, record)
    except RemitError as problem:
        return {rows[0].seq: str(problem)}
    return dict(_problems(documents, steps, rows, keep=keep))


def step_names(documents: DocumentStore, past: PastRules, record: DecisionRecord) -> dict[str, str]:
    """Return the name of each step and of its rollback, by its id. Empty if the catalogue of the goal is lost."""
    try:
        steps, _ = _layout(documents, past, record)
    except RemitError:
        return {}
    own = {each.step_id: each.name for each in steps}
    return {**own, **{rollback_id_of(step_id): f"rollback of {name}" for step_id, name in own.items()}}


def _layout(documents: DocumentStore, past: PastRules, record: DecisionRecord) -> tuple[tuple[PlannedStep, ...], bool]:
    goal = documents.tree(record.goal_ref)
    packet = FINDER_PACKET.from_tree(documents.tree(goal["finder_packet_ref"]), source="a stored packet")
    if not isinstance(packet, SimulationMatchPacket):
        return (), False
    catalogue = past.catalogue(documents, packet.catalog_snapshot_ref)
    whole = catalogue.find(packet.candidates[0].simulation_id)
    if whole is None or not isinstance(whole.simulation.binding, CompositeBinding):
        return (), False
    return planned_steps(whole, catalogue), whole.simulation.binding.keep


def _problems(
    documents: DocumentStore, steps: Sequence[PlannedStep], rows: Sequence[Recorded], *, keep: bool
) -> Iterator[tuple[int, str]]:
    events: dict[str, str] = {}
    for number, each in enumerate(rows):
        row, last = each.row, events.get(each.row.step_id, "")
        events[row.step_id] = row.event
        if row.event not in TRANSITIONS.get(last, ()):
            yield each.seq, f"a row before it is missing: {last or 'nothing'} is not followed by {row.event}"
        elif steps and not is_undo(row.step_id):
            before = rows[:number]
            move = next_move(steps, before, keep=keep)
            why = _move_problem(move, before, each, is_first=not last) or _outputs_differ(
                documents, steps, before, each
            )
            if why:
                yield each.seq, why


def _move_problem(move: Move, before: Sequence[Recorded], made: Recorded, *, is_first: bool) -> str:
    """Say why a row is not the next move after the rows before it. Empty if it is, or belongs to a begun step."""
    row = made.row
    if row.step_id == WHOLE:
        is_end = isinstance(move, End) and move.ending == row.event and not move.is_recorded
        return "" if is_end or row.event == "STARTED" else f"the rows before it lead to another end than {row.event}"
    if row.event == "RETRIED":
        is_next = isinstance(move, RetryStep) and (move.step.step_id, str(move.attempt)) == (row.step_id, row.attempt)
        return "" if is_next else "the rows before it do not allow this attempt"
    if is_first and not _is_due(move, row.step_id):
        return "the rows before it lead to another step"
    if is_first and not _is_covered(before, made):
        return "it refers to the confirmation of another step than the one that it rolls back"
    return ""


def _is_due(move: Move, step_id: str) -> bool:
    """Tell whether the move is this step, or the rollback that it is."""
    original = rolled_back_id(step_id)
    if original is not None:
        return isinstance(move, RollBackStep) and move.step.step_id == original
    return isinstance(move, RunStep) and move.step.step_id == step_id


def _is_covered(before: Sequence[Recorded], first: Recorded) -> bool:
    """Tell whether a rollback refers to the confirmation of the step that it rolls back, and to no other."""
    original = rolled_back_id(first.row.step_id)
    proofs = {each.row.confirmation_parse_proof_ref for each in before if _is_done(each, original)}
    return original is None or proofs == {first.row.confirmation_parse_proof_ref}


def _is_done(recorded: Recorded, step_id: str | None) -> bool:
    return (recorded.row.step_id, recorded.row.event) == (step_id, "SUCCEEDED")


def _outputs_differ(
    documents: DocumentStore, steps: Sequence[PlannedStep], before: Sequence[Recorded], decided: Recorded
) -> str:
    """Compare the values that a decision about a step used with those that the earlier steps gave."""
    names = {step.step_id: step.name for step in steps}
    ref = decided.row.dispatch_decision_hash
    if ref is None or decided.row.step_id not in names:
        return ""
    given = {
        names[each.row.step_id]: documents.tree(each.row.outputs_ref)["outputs"] if each.row.outputs_ref else {}
        for each in before
        if each.row.event == "SUCCEEDED" and each.row.step_id in names
    }
    given.pop(names[decided.row.step_id], None)
    inputs = documents.tree(ref).get("step_inputs_ref")
    used = documents.tree(inputs)["outputs"] if inputs is not None else {}
    later = set(given) - set(used)
    if decided.row.event == "ROLLED_BACK" and later:  # rolled back after later steps had succeeded
        given = {name: given[name] for name in used if name in given}
    return "" if used == given else "it used other values than the earlier steps gave"
