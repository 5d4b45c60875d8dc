"""The history of one goal as a tree, from the user's words to the effect and its rollback.

Each node has its position in the ledger. The module only reads, in one read transaction. A missing or wrong part is
marked in its place, and hides nothing else. For each entry it checks that a signed head covers it, that its row has the
same content, and that each document has the digest that is its name. `remit ledger verify` checks whole chains.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.contracts.goals.simulation import UNDOES
from remit.core.errors import RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring
from remit.goals.composite.layout import PlannedStep, planned_steps
from remit.goals.composite.trace_groups import Placed, group_by_step
from remit.goals.decisions import stored_attempts
from remit.goals.history import PREVIEW, History, load_decision
from remit.goals.history_nodes import HistoryNode, as_tree, entry_node, find_coverage_problem
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore, load_document
from remit.ledger.entry import Entry
from remit.ledger.goal_queries import AnswerRow, Recorded, answer_rows, entries_of, step_events
from remit.ledger.goal_tables import row_values
from remit.masking import mask_json
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.store.connection import Connection

STEP_KINDS: Final = {
    "PLANNED": "plan",
    "CONFIRMATION_REQUESTED": "question",
    "CONFIRMED": "confirmed",
    "APPROVAL_REQUESTED": "approval_requested",
    "ACCESS_ALLOWED": "decision",
    "DISPATCHED": "dispatch",
    "RETRIED": "dispatch",
    "ROLLED_BACK": "rollback",
    "STARTED": "begin",
}
"""The node kinds by event. Every other event of a step is its outcome."""
_ID_OF: Final = {"agent.confirmation": "confirmation_id", "agent.access": "decision_id"}
_DOCUMENT_REFS: Final = (
    "finder_packet_ref",
    "policy_snapshot_ref",
    "catalog_snapshot_ref",
    "artifact_fingerprint_bundle_ref",
    "access_decision_ref",
    "confirmation_parse_proof_ref",
    "dispatch_decision_hash",
)
_CHECKPOINT_IDS: Final = {
    "task": ("manifest", "task_id"),
    "plan": ("envelope", "envelope_id"),
    "browser": ("action", "action_id"),
}
"""The place of the id of a bound action in the prepared part of a checkpoint, by the type of the action."""


def trace_goal(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> HistoryNode | None:
    """Return the tree of a goal. For another correlation id, such as a task's, its entries. None if there are none."""
    entries, more = entries_of(connection, tenant_id, correlation_id)
    steps = step_events(connection, tenant_id, correlation_id)
    if not entries and not steps:
        return None
    answers = answer_rows(connection, tenant_id, correlation_id)
    tracer = _Tracer(connection, keyring, tenant_id, correlation_id, {step.seq: step for step in steps}, answers)
    placed = list(tracer.nodes(entries))
    children = tuple(node for _, node in placed)
    if History(tuple(steps)).whole is not None:
        children = group_by_step(placed, tracer.planned(steps), steps)
    if more:
        children += (HistoryNode("more", {"entries": more}),)
    return replace(tracer.root(steps), children=(*tracer.packet(steps), *children))


@dataclass(frozen=True)
class _Tracer:
    connection: Connection
    keyring: Callable[[], Keyring]
    tenant_id: str
    correlation_id: str
    rows: dict[int, Recorded]
    answers: dict[tuple[str, int], AnswerRow]
    reported: set[str] = field(default_factory=set)
    """The missing documents that were reported already. Every later row names them too."""

    def root(self, steps: list[Recorded]) -> HistoryNode:
        if not steps:
            return HistoryNode("correlation", {"correlation_id": self.correlation_id}, tenant_id=self.tenant_id)
        last = steps[-1]
        stands = History(tuple(steps)).state
        facts: dict[str, Any] = {"correlation_id": self.correlation_id, "stands": stands}
        facts |= {"step_id": last.row.step_id, "plan_id": last.row.plan_id}
        ref, problem, goal = None, "", {}
        try:
            ref = load_decision(self.connection, self.tenant_id, _decision_ref(steps)).goal_ref
            goal = load_document(self.connection, self.tenant_id, ref)
        except RemitError as lost:
            problem = lost.what
        names = ("user_id", "language_tag", "thread_id", "utterance", "normalized_intent")
        facts |= {name: goal.get(name) for name in names}
        if goal:
            facts["attempt_counter"] = stored_attempts(goal, self._document(steps[0].row.finder_packet_ref or "")[0])
        return HistoryNode("goal", facts, tenant_id=self.tenant_id, at=steps[0].created_at, ref=ref, problem=problem)

    def packet(self, steps: list[Recorded]) -> Iterator[HistoryNode]:
        ref = steps[0].row.finder_packet_ref if steps else None
        if ref is None:
            return
        packet, problem = self._document(ref)
        names = (
            "packet_type",
            "finder_version",
            "candidates",
            "fields",
            "steps",
            "question",
            "field",
            "attempt",
            "intent",
        )
        found = {name: packet[name] for name in (*names, "reason_code", "proof_ref", "packet_id") if name in packet}
        masked: Any = mask_json(found)
        if isinstance(found.get("fields"), dict) and UNDOES in found["fields"]:
            masked["takes_back"] = found["fields"][UNDOES]
        yield HistoryNode("packet", masked, ref=ref, problem=problem)

    def planned(self, steps: list[Recorded]) -> tuple[PlannedStep, ...]:
        """Return the steps of the goal in their order. Empty if its packet or its catalogue is lost."""
        documents = DocumentStore(self.connection, self.tenant_id)
        try:
            packet = FINDER_PACKET.from_tree(documents.tree(steps[0].row.finder_packet_ref or ""), source="a packet")
            if not isinstance(packet, SimulationMatchPacket):
                return ()
            catalogue = PastRules().catalogue(documents, packet.catalog_snapshot_ref)
        except RemitError:  # the node of the packet says so
            return ()
        whole = catalogue.find(packet.candidates[0].simulation_id)
        return planned_steps(whole, catalogue) if whole is not None else ()

    def nodes(self, entries: list[Entry]) -> Iterator[Placed]:
        """Yield the nodes in the order of the chain, each with its step.

        The entries of the bound action are children of the dispatch that they belong to, which is known by its key.
        """
        payloads = {entry.seq: as_tree(entry) for entry in entries}
        dispatches = [
            key
            for entry in entries
            if entry.kind == "agent.step"
            and (key := _dispatch_key(payloads[entry.seq]))
            and payloads[entry.seq].get("event") in {"DISPATCHED", "RETRIED"}
        ]
        below = [
            entry
            for entry in entries
            if entry.kind.startswith("simulation.") and payloads[entry.seq].get("key") in dispatches
        ]
        step_of: dict[str, str] = {}
        for entry in entries:
            payload, step_id = payloads[entry.seq], None
            if entry.kind in {"agent.step", PREVIEW, *_ID_OF}:
                step_id = str(payload.get("step_id"))
                for name in ("dispatch_decision_hash", "idempotency_key"):
                    step_of.setdefault(str(payload.get(name)), step_id)
            if entry.kind == "agent.step":
                yield step_id, self._step_node(entry, below)
            elif entry.kind in _ID_OF:
                yield step_id, self._verdict_node(entry)
            elif entry.kind == "agent.approval":
                facts = {"approved": payload.get("approved"), "by": entry.actor, "reason": payload.get("reason")}
                node = HistoryNode("approval", facts, ref=payload.get("decision"))
                yield step_of.get(str(payload.get("decision"))), self._with_position(node, entry)
            elif entry not in below:
                key = str(payload.get("key"))
                yield step_id or step_of.get(key.partition(".")[0]), entry_node(self.connection, self.keyring, entry)
        for node in self._orphan_rows():
            yield None, node

    def _orphan_rows(self) -> Iterator[HistoryNode]:
        """Yield the rows that have no ledger entry."""
        orphans = [(each.seq, each.created_at, "agent.step", each.row.event) for each in self.rows.values()]
        orphans += [(seq, row.created_at, kind, row.verdict) for (kind, seq), row in self.answers.items()]
        for seq, at, kind, event in sorted(orphans):
            problem = "this row has no entry in the ledger"
            yield HistoryNode(
                "row", {"kind": kind, "event": event}, tenant_id=self.tenant_id, seq=seq, at=at, problem=problem
            )

    def _step_node(self, entry: Entry, below: list[Entry]) -> HistoryNode:
        payload = as_tree(entry)
        event = str(payload.get("event"))
        kind = STEP_KINDS.get(event, "outcome")
        facts = {name: value for name, value in payload.items() if value is not None and name != "correlation_id"}
        problems = [self._row_problem(entry.seq, payload), *self._missing_documents(payload)]
        children: tuple[HistoryNode, ...] = ()
        ref = payload.get("dispatch_decision_hash")
        if ref and (why := self._document(str(ref))[0].get("why")):
            facts["why"] = why
        if kind == "plan":
            plan = self._plan()
            facts |= {name: plan[name] for name in ("risk_level", "required_confirmations") if name in plan}
            ref = self._plan_ref()
        elif kind == "dispatch":
            children = tuple(self._dispatch_children(_dispatch_key(payload), below))
        elif kind == "rollback":
            facts["by"] = self._goal_of(str(payload.get("simulation_entry_ref")))
        node = HistoryNode(kind, facts, ref=ref, problem="; ".join(filter(None, problems)), children=children)
        return self._with_position(node, entry)

    def _dispatch_children(self, key: str, below: list[Entry]) -> Iterator[HistoryNode]:
        for entry in below:
            if as_tree(entry).get("key") == key:
                yield entry_node(self.connection, self.keyring, entry)
        yield from read_actions(self.connection, self.keyring, self.tenant_id, key, DEFAULT_TENANT)

    def _verdict_node(self, entry: Entry) -> HistoryNode:
        """Build the node of a confirmation or of an access decision."""
        payload = as_tree(entry)
        name = _ID_OF[entry.kind]
        ref = str(payload.get(name))
        document, problem = self._document(ref)
        facts = {**{key: value for key, value in document.items() if value is not None}, **_without_nulls(payload)}
        facts = {key: value for key, value in facts.items() if key not in {"correlation_id", name}}
        row = self.answers.pop((entry.kind, entry.seq), None)
        if row is None or (row.id, row.verdict) != (payload.get(name), payload.get("verdict")):
            problem = "; ".join(filter(None, (problem, "its row is missing or has other content")))
        return self._with_position(
            HistoryNode(entry.kind.removeprefix("agent."), facts, ref=ref, problem=problem), entry
        )

    @property
    def _key(self) -> tuple[str, str]:
        return self.tenant_id, self.correlation_id

    def _with_position(self, node: HistoryNode, entry: Entry) -> HistoryNode:
        problem = "; ".join(filter(None, (find_coverage_problem(self.connection, self.keyring, entry), node.problem)))
        return replace(node, tenant_id=entry.tenant_id, seq=entry.seq, at=entry.created_at, problem=problem)

    def _row_problem(self, seq: int, payload: Mapping[str, Any]) -> str:
        recorded = self.rows.pop(seq, None)
        if recorded is None:
            return "its row is missing in agent_execution_ledger"
        return "" if row_values(recorded.row) == payload else "its row has other content"

    def _missing_documents(self, payload: Mapping[str, Any]) -> Iterator[str]:
        for name in _DOCUMENT_REFS:
            ref = payload.get(name)
            if isinstance(ref, str) and ref not in self.reported and (problem := self._document(ref)[1]):
                self.reported.add(ref)
                yield f"{name}: {problem}"

    def _document(self, ref: str) -> tuple[dict[str, Any], str]:
        try:
            return load_document(self.connection, self.tenant_id, ref), ""
        except RemitError as problem:
            return {}, problem.what

    def _plan_ref(self) -> str | None:
        steps = step_events(self.connection, *self._key)
        try:
            return load_decision(self.connection, self.tenant_id, _decision_ref(steps, first=True)).plan_ref
        except RemitError:
            return None

    def _plan(self) -> dict[str, Any]:
        ref = self._plan_ref()
        return self._document(ref)[0] if ref else {}

    def _goal_of(self, ref: str) -> str | None:
        claim = read_claim(self.connection, ClaimKey(self.tenant_id, "simulation", ref.partition("/")[2]))
        return claim.correlation_id if claim is not None else None


def _dispatch_key(payload: Mapping[str, Any]) -> str:
    """Return the key of the claim of a dispatch: that of its attempt."""
    ref = payload.get("simulation_entry_ref")
    return str(ref).partition("/")[2] if ref else str(payload.get("idempotency_key"))


def _without_nulls(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if value is not None}


def _decision_ref(steps: list[Recorded], *, first: bool = False) -> str:
    """Return the reference of the first or the last decision about the goal."""
    refs = [step.row.dispatch_decision_hash for step in steps if step.row.dispatch_decision_hash]
    return (refs[0] if first else refs[-1]) if refs else ""


def read_actions(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, key: str, operation_tenant: str
) -> Iterator[HistoryNode]:
    """Yield one node for each bound action. Its operation writes to the chain of `operation_tenant`."""
    found = read_claim(connection, ClaimKey(tenant_id, "simulation", key))
    if found is None:
        yield HistoryNode("action", {}, problem="the claim of the dispatch is missing")
        return
    for ref in _refs(found):
        scope, _, name = ref.partition("/")
        claim = read_claim(connection, ClaimKey(operation_tenant, scope, name))
        if claim is None:
            # A refusal claims nothing. A plan's correlation is its envelope id; that of a task is its goal's.
            entries = _entries(connection, operation_tenant, scope, name, (name, found.correlation_id))
        else:
            entries = _entries(connection, operation_tenant, scope, name, (claim.correlation_id,))
        state = "ended" if isinstance(claim, ClaimCompleted) else "begun" if claim is not None else "not begun"
        children = tuple(entry_node(connection, keyring, entry) for entry in entries)
        problem = _missing_entries_problem(claim, children)
        yield HistoryNode(
            "action", {"action": ref, "state": state}, tenant_id=operation_tenant, problem=problem, children=children
        )


def _missing_entries_problem(claim: ClaimCompleted | ClaimHeld | None, children: tuple[HistoryNode, ...]) -> str:
    """Return a problem if the claim says that the action ran, but the chain of its operation does not."""
    if claim is None or any(isinstance(claim, ClaimHeld) or child.seq == claim.outcome_seq for child in children):
        return ""
    return (
        "its outcome is missing in the ledger"
        if isinstance(claim, ClaimCompleted)
        else "its entries are missing in the ledger"
    )


def _refs(found: ClaimCompleted | ClaimHeld) -> list[str]:
    if isinstance(found, ClaimCompleted):
        refs = _tree(found.result).get("audit_refs")
        if isinstance(refs, list) and refs:
            return [str(ref) for ref in refs]
    prepared = _tree(found.checkpoint).get("prepared")
    kind = str(prepared.get("type")) if isinstance(prepared, dict) else ""
    if kind not in _CHECKPOINT_IDS or not isinstance(prepared, dict):
        return []
    inside, name = _CHECKPOINT_IDS[kind]
    return [f"{kind}/{prepared[inside][name]}"] if name in prepared.get(inside, {}) else []


def _entries(
    connection: Connection, tenant_id: str, scope: str, name: str, correlations: tuple[str, ...]
) -> list[Entry]:
    entries = [each for one in dict.fromkeys(correlations) for each in entries_of(connection, tenant_id, one)[0]]
    return [entry for entry in entries if _belongs(entry, scope, name)]


def _belongs(entry: Entry, scope: str, name: str) -> bool:
    """Tell whether an entry belongs to a request. A plan and its rollback, or a task and its restore, share one id."""
    match scope:
        case "task":
            return entry.task_id == name
        case "plan":
            return entry.kind.startswith(("plan.", "envelope."))
        case "rollback":
            return entry.kind.startswith("rollback.") and as_tree(entry).get("key") == name
        case _:
            return bool(as_tree(entry).get("key", name) == name)  # another step may have an action of the same kind


def _tree(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}
