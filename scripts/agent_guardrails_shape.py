"""Guardrails for the structure of the core: where envelopes are created, and which branches can dispatch."""

import ast
from collections.abc import Iterator
from typing import Final, TypeGuard

from scripts.agent_guardrails_lists import ENVELOPES_READ_IN
from scripts.agent_guardrails_sources import (
    Module,
    Sources,
    Violation,
    calls_inside,
    construction_in,
    field_of,
    is_guarded_by,
    keyword_of,
    members_of,
    missing_violation,
    union_in,
)

FROM_PACKET: Final = "_simulation_id(evidence, target)"
NAMED_BY_PACKET: Final = """if target.whole is None:
    return packet.candidates[0].simulation_id
return next((each.simulation for each in packet.steps if each.step == target.step.name))"""
"""The end of `planner._simulation_id`: the first candidate, or the simulation of the same step of the packet."""
BINDINGS: Final = {
    "TaskBinding": "task",
    "PlanBinding": "plan",
    "SqlBinding": "sql",
    "BrowserBinding": "browser",
    "UndoBinding": "undo",
    "CompositeBinding": "composite",
}
ACTIONS: Final = frozenset({"TaskAction", "PlanAction", "BrowserAction", "UndoAction"})
FINDERS: Final = frozenset({"goals/finder/packets.py", "goals/rollback.py"})
DISPATCH_PATH: Final = frozenset({"ACCESS_ALLOWED", "DISPATCHED", "RETRIED", "SUCCEEDED", "FAILED", "ROLLED_BACK"})
RANKING: Final = frozenset({"sorted", "max", "min", "reversed", "sort", "nlargest", "shuffle", "choice"})


def check_shape(sources: Sources) -> Iterator[Violation]:
    yield from _envelopes(sources)
    yield from _bindings(sources)
    yield from _missing(sources)
    yield from _rollback_gate(sources)


# --- only simulations, and only the Finder's first candidate --------------------------------------------------------


def _envelopes(sources: Sources) -> Iterator[Violation]:
    next_step = "Only planner.build_envelope may create it, for the first candidate or a step of the Finder's packet."
    for module in (*sources.core(), *sources.goals()):
        inside = calls_inside(module, "build_envelope") if module.name == "goals/planner.py" else set()
        copies = calls_inside(module, "final_gate_refusal") if module.name == "goals/decisions.py" else set()
        for call in module.calls:
            end = module.last_name(call.func)
            if end == "DispatchEnvelope" and id(call) not in inside:
                yield module.breach("tool-dispatch", call, "it creates a DispatchEnvelope", next_step)
            if end in {"model_construct", "model_copy"} and id(call) not in copies:
                yield module.breach(
                    "tool-dispatch", call, f"it creates a contract with {end}, without its checks", next_step
                )
            if end in {"SimulationMatchPacket", "Candidate"} and module.name not in FINDERS:
                yield module.breach("tool-dispatch", call, f"it creates a {end}", "Only a Finder may name candidates.")
            if (
                end in RANKING
                and module.name in {"goals/gates.py", "goals/planner.py"}
                and "candidate" in ast.unparse(call)
            ):
                yield module.breach(
                    "tool-dispatch", call, "it ranks candidates", "Use the first one, in the order of the packet."
                )
    yield from _read_envelopes(sources)
    planner = sources.module("goals/planner.py")
    made = construction_in(planner, "build_envelope", "DispatchEnvelope") if planner else None
    if planner is None or made is None:
        yield missing_violation("tool-dispatch", "goals/planner.py", "build_envelope with its DispatchEnvelope(...)")
        return
    given = keyword_of(made, "simulation_id")
    if given != FROM_PACKET or any(one.arg is None for one in made.keywords):
        what = f"simulation_id comes from {given or 'another place'}"
        yield planner.breach("tool-dispatch", made, what, f"Write simulation_id={FROM_PACKET}.")
    yield from _named_by_packet(sources, planner)


def _named_by_packet(sources: Sources, planner: Module) -> Iterator[Violation]:
    """Check that the packet names the simulation of every dispatch, and that the executor runs that one."""
    named = planner.shape("_simulation_id")
    if named is None or "\n".join(ast.unparse(one) for one in named.body[-2:]) != NAMED_BY_PACKET:
        what = "_simulation_id does not take the id from the packet alone"
        yield planner.breach("tool-dispatch", named, what, "Return the first candidate, or the step's simulation.")
    executor = sources.module("goals/simulation_executor.py")
    filled = executor.shape("SimulationOperation", "checkpoint") if executor else None
    run = "entry = granted.evidence.catalogue.find(envelope.simulation_id)"
    if executor is not None and run not in {ast.unparse(one) for one in (filled.body if filled else ())}:
        what = "it may run another simulation than the one of the envelope"
        yield executor.breach("tool-dispatch", filled, what, f"Write {run}.")


def _read_envelopes(sources: Sources) -> Iterator[Violation]:
    """Check that an envelope is read only from a recorded document. Other reads would be another way to create one."""
    next_step = "Read the envelope that the decision recorded, in the functions that do so already."
    for module in (*sources.core(), *sources.goals()):
        functions = [function for name, function in ENVELOPES_READ_IN if name == module.name]
        inside = {each for function in functions for each in calls_inside(module, function)}
        for call in module.calls:
            if module.origin(call.func).endswith(("DispatchEnvelope.from_tree", "DispatchEnvelope.parse")):
                is_recorded = module.name != "goals/core.py" or _is_recorded(module, call)
                if id(call) not in inside or not is_recorded:
                    yield module.breach("tool-dispatch", call, "it reads an envelope that was not recorded", next_step)


def _is_recorded(core: Module, call: ast.Call) -> bool:
    loaded = "load_document(connection, goal.tenant_id, record.envelope_ref or '')"
    given = ast.unparse(call.args[0]) if call.args else ""
    shape = core.shape("AgentCore", "_dispatch")
    found = ast.walk(shape) if shape is not None else ()
    sets = [one for one in found if isinstance(one, ast.Assign) and [ast.unparse(to) for to in one.targets] == [given]]
    return [ast.unparse(one.value) for one in sets] == [loaded]


def _bindings(sources: Sources) -> Iterator[Violation]:
    models, filled = sources.module("contracts/goals/simulation.py"), sources.module("goals/binding/binding.py")
    next_step = (
        "Bind a simulation only to a task, a plan, a query, a browser action, an undo, or steps of these. A tool is not"
        " allowed."
    )
    if models is None or filled is None:
        yield missing_violation("tool-dispatch", "contracts/goals/simulation.py", "the closed set of bindings")
        return
    union = models.value("Binding")
    members = union_in(union)
    if members != set(BINDINGS):
        yield models.breach(
            "tool-dispatch", union, f"Binding is {', '.join(sorted(members)) or 'not a union'}", next_step
        )
    for name, word in BINDINGS.items():
        kind = field_of(models.shape(name), "type")
        if kind is None or ast.unparse(kind.annotation) != f"Literal['{word}']" or kind.value is not None:
            yield models.breach("tool-dispatch", kind, f"{name} does not have the type {word}", next_step)
    bound = filled.value("BoundAction")
    if bound is None or members_of(bound) != ACTIONS:
        yield filled.breach("tool-dispatch", bound, "BoundAction is not the union of the four known actions", next_step)


# --- which branches can dispatch ------------------------------------------------------------------------------------


def _missing(sources: Sources) -> Iterator[Violation]:
    gates, core = sources.module("goals/gates.py"), sources.module("goals/core.py")
    rule = "missing-dispatch"
    if gates is None or core is None:
        yield missing_violation(rule, "goals", "the gates or the core")
        return
    yield from _missing_branch(gates)
    dispatches = gates.shape("GateVerdict", "dispatches")
    if dispatches is None or ast.unparse(dispatches.body[-1]) != "return self.event == 'ACCESS_ALLOWED'":
        yield gates.breach(
            rule, dispatches, "another event than ACCESS_ALLOWED dispatches", "Compare the event with ACCESS_ALLOWED."
        )
    for module in sources.core():
        accessible = calls_inside(module, "_check_access") if module is gates else set()
        for call in module.calls:
            end = module.last_name(call.func)
            if end == "GateVerdict" and id(call) not in accessible and "ACCESS_ALLOWED" in ast.unparse(call):
                yield module.breach(
                    rule, call, "a dispatch is decided in another place", "Only gates._check_access may allow it."
                )
            if end == "build_envelope" and not is_guarded_by(module, call, "verdict.dispatches"):
                next_step = "Check `verdict.dispatches` first. Only such a verdict may have an envelope."
                yield module.breach(rule, call, "an envelope is created without a verdict that dispatches", next_step)
    yield from _core_branches(core)
    moves = sources.module("ledger/projections.py")
    table = moves.value("TRANSITIONS") if moves else None
    pairs = dict(zip(map(_unparsed, table.keys), map(_unparsed, table.values), strict=True)) if _is_dict(table) else {}
    for ended in ("ESCALATED", "CLARIFIED", "REFUSED"):
        if moves is None or pairs.get(repr(ended)) != "frozenset()":
            what = f"a step that is {ended} can continue"
            yield (moves or gates).breach(rule, table, what, "Allow no transition after it.")


def _is_dict(node: ast.AST | None) -> TypeGuard[ast.Dict]:
    return isinstance(node, ast.Dict)


def _unparsed(node: ast.AST | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _missing_branch(gates: Module) -> Iterator[Violation]:
    next_step = "Return ESCALATED for a MissingSimulationPacket, before any branch that can match."
    decide = gates.shape("decide")
    docstring = ast.get_docstring(decide) if decide is not None else None
    for node in decide.body[docstring is not None :] if decide is not None else ():
        if isinstance(node, ast.If) and "MissingSimulationPacket" in ast.unparse(node.test):
            answer = [ast.unparse(one) for one in node.body]
            if answer != ["return GateVerdict('ESCALATED', 'SIMULATION_MISSING')"] or node.orelse:
                yield gates.breach("missing-dispatch", node, "its branch does more than escalate", next_step)
            if ast.unparse(node.test) != "isinstance(packet, MissingSimulationPacket)":
                yield gates.breach("missing-dispatch", node, "its branch has another condition", next_step)
            return
        if not isinstance(node, ast.Assign | ast.If) or "_check_match" in ast.unparse(node):
            break
    yield gates.breach("missing-dispatch", decide, "it has no branch before the match", next_step)


def _core_branches(core: Module) -> Iterator[Violation]:
    rule = "missing-dispatch"
    way = core.value("ALLOWED_OR_LATER")
    inner = way.args[0] if isinstance(way, ast.Call) and way.args else None
    listed = {ast.unparse(one) for one in inner.elts} if isinstance(inner, ast.Set) else set()
    if listed != {repr(one) for one in DISPATCH_PATH}:
        next_step = f"Set ALLOWED_OR_LATER to {', '.join(sorted(DISPATCH_PATH))}."
        yield core.breach(rule, way, "the events that allow a dispatch are not the expected ones", next_step)
    for call in core.calls:
        if ast.unparse(call.func) == "self._dispatch":
            given = {"made.ref": "made.verdict.dispatches", "history.allowed_by": "history.event in ALLOWED_OR_LATER"}
            wanted = given.get(ast.unparse(call.args[1]) if len(call.args) > 1 else "")
            if wanted is None or not is_guarded_by(core, call, wanted):
                next_step = "Dispatch only a recorded, allowed step: `if history.event in ALLOWED_OR_LATER`, or `made`."
                yield core.breach(rule, call, "the executor is called without a recorded ACCESS_ALLOWED", next_step)
        elif ast.unparse(call.func).endswith(".dispatch") and id(call) not in calls_inside(core, "_dispatch"):
            yield core.breach(rule, call, "the executor is called outside of _dispatch", "Only _dispatch may call it.")


def _rollback_gate(sources: Sources) -> Iterator[Violation]:
    gates = sources.module("goals/gates.py")
    checked = gates.shape("_check_step") if gates else None
    if gates is None or checked is None:
        yield missing_violation("rollback", "goals/gates.py", "_check_step")
        return
    next_step = "Refuse with ROLLBACK_PLAN_MISSING before the user is asked to confirm."
    ifs = [ast.unparse(one) for one in checked.body if isinstance(one, ast.If)]
    gate = "if _needs_rollback(target) and (not _rollback_entry(target.simulation, evidence.catalogue)):"
    if f"{gate}\n    return GateVerdict('REFUSED', 'ROLLBACK_PLAN_MISSING', target)" not in ifs:
        yield gates.breach("rollback", checked, "the gate for the rollback is missing", next_step)
    for name, body, what in (
        (
            "needs_confirmation",
            "return simulation.impact != 'read_only'",
            "an impact other than read_only does not need a confirmation",
        ),
        (
            "_needs_rollback",
            "return target.whole is not None or needs_confirmation(target.simulation)",
            "a step of a goal with several steps, or a change, does not need a rollback",
        ),
    ):
        shape = gates.shape(name)
        if shape is None or ast.unparse(shape.body[-1]) != body:
            yield gates.breach("rollback", shape, what, next_step)
