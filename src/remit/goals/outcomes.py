"""The outcome of a cycle for its caller. It is made from the ledger only, so it is the same each time."""

from collections.abc import Callable
from typing import NamedTuple

from remit.contracts.goals.dispatch import SimulationOutcome
from remit.contracts.goals.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.packets import ClarifyPacket, RefusePacket, SimulationMatchPacket
from remit.core.errors import Reason, UsageError
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import Outputs, find_target, is_undo
from remit.goals.confirmation.parser import Lexicon
from remit.goals.decisions import DecisionRecord
from remit.goals.history import History, decision_of
from remit.goals.messages.catalogue import UserText, user_text
from remit.goals.replay import load_outputs
from remit.goals.rules import PastRules
from remit.goals.user_messages import confirmation_prompt, finder_refusal, step_prompt, undo_prompt
from remit.ledger.documents import DocumentStore
from remit.ledger.goal_tables import StepRow
from remit.store.connection import Connection


def build_current_outcome(
    connection: Connection,
    past: PastRules,
    goal: AgentGoalRequest,
    history: History,
    simulated: SimulationOutcome | None = None,
) -> AgentExecutionOutcome:
    """Build the outcome of a goal in the state that the ledger has."""
    last, ref = history.last, history.decision_ref
    if last is None or ref is None:
        raise UsageError(Reason.MISUSE, "this goal has no decision yet")
    documents = DocumentStore(connection, goal.tenant_id)
    record = decision_of(documents, ref)
    prompt_source = PromptSource(
        lambda: past.catalogue(documents, record.catalog_snapshot_ref),
        lambda: past.lexicon(documents, record.lexicon_ref),
        load_outputs(documents, record.step_inputs_ref),
    )
    return build_outcome(goal, last.row, record, ref, prompt_source, simulated)


class PromptSource(NamedTuple):
    """The catalogue and the lexicon for the text of the question, loaded only if a question is asked."""

    catalogue: Callable[[], Catalogue]
    lexicon: Callable[[], Lexicon]
    outputs: Outputs
    """The outputs of the steps before."""


def build_outcome(
    goal: AgentGoalRequest,
    row: StepRow,
    record: DecisionRecord,
    ref: str,
    prompt_source: PromptSource,
    simulated: SimulationOutcome | None = None,
) -> AgentExecutionOutcome:
    """Build the outcome of a goal from its last event (`row`) and the decision with the name `ref`."""
    refs = (record.confirmation_parse_proof_ref, record.access_decision_ref)
    proofs = [one for one in refs if one is not None]
    if simulated is not None:
        proofs += [one for one in (*simulated.audit_refs, *simulated.proof_refs) if one not in proofs]
    code = simulated.reason_code if simulated is not None else row.reason_code or record.reason_code
    packet = goal.sim_finder_packet
    if isinstance(packet, RefusePacket):
        code = packet.reason_code  # the Finder's own code, unchanged
    text, language = _text(goal, row, prompt_source, code)
    return AgentExecutionOutcome(
        step_id=row.step_id if isinstance(packet, SimulationMatchPacket) else None,
        simulation_outcome=simulated,
        audit_event_id=row.event_id,
        proof_refs=tuple(proofs),
        dispatch_decision_hash=ref,
        next_step=None,
        reason_code=code,
        user_visible_text=text,
        text_language=language,
        attempt_counter=packet.attempt if isinstance(packet, ClarifyPacket) else goal.attempt_counter,
    )


def _text(goal: AgentGoalRequest, row: StepRow, prompt_source: PromptSource, code: str) -> UserText:
    packet, language = goal.sim_finder_packet, goal.language_tag
    if isinstance(packet, ClarifyPacket):
        return UserText(packet.question, None)
    if isinstance(packet, RefusePacket):
        return finder_refusal(packet.reason_code, language)
    if row.event == "ROLLED_BACK":
        return user_text("ROLLED_BACK", language)
    if row.event == "CONFIRMATION_REQUESTED" and isinstance(packet, SimulationMatchPacket):
        catalogue = prompt_source.catalogue()
        target = find_target(packet, catalogue, row.step_id, prompt_source.outputs)
        if target is not None:
            again = code == "CONFIRMATION_AMBIGUOUS"
            lexicon = prompt_source.lexicon()
            if is_undo(row.step_id):
                return undo_prompt(target.entry, lexicon, language, again=again)
            if target.whole is not None:
                return step_prompt(target, target.whole, lexicon, language, again=again)
            return confirmation_prompt(target.entry, target.fields, lexicon, language, again=again)
    found = user_text(code, language)
    return found if found.text else user_text("CONFIRMATION_MISSING", language)
