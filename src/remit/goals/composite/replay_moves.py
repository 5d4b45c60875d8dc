"""Replay of the moves of a goal with several steps: retries, the values that steps pass on, and how the goal ended.

The decisions of the gates are replayed one by one. This module checks what connects them, from the rows before each.
"""

from collections.abc import Iterator, Sequence

from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.contracts.goals.simulation import CompositeBinding
from remit.core.errors import RemitError
from remit.goals.composite.layout import WHOLE, PlannedStep, is_undo, planned_steps, rollback_id_of, rolled_back_id
from remit.goals.composite.progress import ENDINGS, End, RetryStep, RollBackStep, RunStep, next_move
from remit.goals.decisions import DecisionRecord
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore
from remit.ledger.goal_queries import Recorded


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
    begun: set[str] = set()
    for number, each in enumerate(rows):
        row, before = each.row, rows[:number]
        is_first, name = row.step_id not in begun, row.step_id
        begun.add(row.step_id)
        if not steps or is_undo(row.step_id):
            continue
        if row.step_id == WHOLE:
            if row.event in ENDINGS:
                move = next_move(steps, before, keep=keep)
                if not isinstance(move, End) or move.ending != row.event:
                    yield each.seq, f"the rows before it lead to another end than {row.event}"
        elif row.event == "RETRIED":
            move = next_move(steps, before, keep=keep)
            if not (isinstance(move, RetryStep) and (move.step.step_id, str(move.attempt)) == (name, row.attempt)):
                yield each.seq, "the rows before it do not allow this attempt"
        elif is_first and not _is_due(steps, before, name, keep=keep):
            yield each.seq, "the rows before it lead to another step"
        elif why := _outputs_differ(documents, steps, before, each):
            yield each.seq, why


def _is_due(steps: Sequence[PlannedStep], before: Sequence[Recorded], step_id: str, *, keep: bool) -> bool:
    """Tell whether the rows before lead to this step, or to the rollback that it is."""
    move = next_move(steps, before, keep=keep)
    original = rolled_back_id(step_id)
    if original is not None:
        return isinstance(move, RollBackStep) and move.step.step_id == original
    return isinstance(move, RunStep) and move.step.step_id == step_id


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
