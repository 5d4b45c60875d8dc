"""Guardrails for goals with several steps: the turn of each step, the ledger as the only memory, and bounded loops."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from scripts.agent_guardrails_lists import PURE_STEPS, STEP_METHODS, WALKING
from scripts.agent_guardrails_sources import Module, Sources, Violation, calls_inside, imported, missing_violation

DRIVER: Final = "goals/composite/driver.py"
CORE: Final = "goals/core.py"
HELD: Final = frozenset({"_core", "_goal", "_packet", "_proof", "_hook", "_documents", "_verified"})
"""What the driver holds while it runs: the request, and the places of the rows that it has compared already."""
NEXT: Final = "next_move(steps, history.steps, keep=keep)"
WAIT: Final = "min(at - self._core.clock(), longest).total_seconds()"
REMEMBERING: Final = frozenset({"cache", "lru_cache", "cached_property", "TTLCache", "ContextVar", "local"})
ENDLESS: Final = frozenset({"count", "cycle", "repeat"})
MOST_MOVES: Final = {(DRIVER, "MAX_MOVES"): 500, (CORE, "MAX_ROUNDS"): 10}
"""The bounds of the two loops in which a goal goes on."""
IN_ORDER: Final = (
    (
        ("goals/simulation_executor.py", "SimulationOperation", "consume_authority"),
        ("self._final_gate(", "require_in_sequence(batch.store, envelope, granted.evidence)", "append_step("),
    ),
    (
        ("goals/recording.py", "", "record_decision"),
        ("require_positions(", "_begin_step(batch, tenant_id, decision, sequence)", "append_step("),
    ),
    (("goals/recording.py", "", "_begin_step"), ("for step_id, event in sequence.items()", "raise _moved_error(")),
    (("goals/recording.py", "", "require_in_sequence"), ("WHOLE: 'STARTED'", "'SUCCEEDED'", "raise _moved_error(")),
    (("goals/recording.py", "", "record_ending"), ("require_positions(", "append_step(")),
    (
        ("goals/gates.py", "", "_check_step"),
        ("if (problem := packet_problem(packet, named, evidence.catalogue)):", "find_target(", "_check_confirmation("),
    ),
    ((CORE, "AgentCore", "run_cycle"), ("require_same_goal(", "self._gather(", "self._decide(", "self._dispatch(")),
    ((DRIVER, "StepsDriver", "read"), ("require_same_goal(", "self._verify(", NEXT)),
    ((DRIVER, "StepsDriver", "advance"), ("self._require_answer_for_open_step(", "self._move(", "self._read_again()")),
)
"""Functions, and the texts that their sources have in this order."""


def check_steps(sources: Sources) -> Iterator[Violation]:
    yield from _in_order(sources)
    yield from _step_methods(sources)
    yield from _memory(sources)
    yield from _loops(sources)


def _in_order(sources: Sources) -> Iterator[Violation]:
    for (file, owner, name), wanted in IN_ORDER:
        module = sources.module(file)
        shape = module.shape(owner, name) if module and owner else module.shape(name) if module else None
        if module is None or shape is None:
            yield missing_violation("sequence", file, name)
            continue
        text = ast.unparse(shape)
        places = [text.find(each) for each in wanted]
        if min(places) < 0 or places != sorted(places):
            yield module.breach("sequence", shape, f"{name} has another order", f"Keep this one: {'; '.join(wanted)}.")


def _step_methods(sources: Sources) -> Iterator[Violation]:
    for module in (*sources.core(), *sources.goals()):
        inside = calls_inside(module, "_move") | calls_inside(module, "_roll_back") if module.name == DRIVER else set()
        inside |= calls_inside(module, "undo") | calls_inside(module, "advance") if module.name == DRIVER else set()
        allowed = {id(one.func) for one in module.calls if id(one) in inside or module.name == CORE}
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr in STEP_METHODS and id(node) not in allowed:
                next_step = "Only the moves of the driver run a step, as `next_move` says."
                yield module.breach("sequence", node, f"it reaches .{node.attr}", next_step)


def _memory(sources: Sources) -> Iterator[Violation]:
    driver, core = sources.module(DRIVER), sources.module(CORE)
    if driver is None or core is None:
        yield missing_violation("memory", DRIVER, "the driver or the core")
        return
    for name in ("Situation", "StepCase", "AgentCore"):
        home = next((each for each in sources.core() if each.shape(name) is not None), None)
        shape = home.shape(name) if home else None
        if home is None or shape is None or not any("frozen=True" in ast.unparse(one) for one in shape.decorator_list):
            yield (home or driver).breach("memory", shape, f"{name} is not frozen", "Make it a frozen dataclass.")
    for call in driver.calls:
        if driver.last_name(call.func) == "next_move" and ast.unparse(call) != NEXT:
            yield driver.breach("memory", call, "the next move is not made from the ledger alone", f"Write {NEXT}.")
    for module in sources.core():
        if module.name.startswith("goals/composite/") or module is core:
            yield from _remembered_in(module)
        if module.name in PURE_STEPS:
            yield from _reads(module)


@lru_cache(maxsize=1_000)
def _remembered_in(module: Module) -> tuple[Violation, ...]:
    return tuple(_remembers(module))


def _remembers(module: Module) -> Iterator[Violation]:
    next_step = "Read it from the ledger again. Another process may have moved the goal on."
    starts = {id(one) for each in module.nodes for one in _assigned_in_init(each)}
    for node in module.nodes:
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield module.breach("memory", node, "it changes a name of another scope", next_step)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            is_held = module.name != DRIVER or node.attr in HELD
            if id(node) not in starts or not is_held:
                yield module.breach("memory", node, f"it keeps {ast.unparse(node)}", next_step)
        if isinstance(node, ast.Name | ast.Attribute) and module.last_name(node) in REMEMBERING:
            yield module.breach("memory", node, f"it uses {module.last_name(node)}", next_step)
    for statement in module.tree.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.List | ast.Set | ast.ListComp | ast.SetComp | ast.DictComp) or _is_empty_container(
            value
        ):
            yield module.breach("memory", statement, "it keeps a container that can change", next_step)


def _assigned_in_init(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef) and node.name == "__init__":
        yield from ast.walk(node)


def _is_empty_container(value: ast.expr | None) -> bool:
    is_call = isinstance(value, ast.Call) and ast.unparse(value.func) in {"dict", "list", "set", "defaultdict", "deque"}
    return is_call or (isinstance(value, ast.Dict) and not value.keys)


def _reads(module: Module) -> Iterator[Violation]:
    """Check that a module which says what comes next can read nothing but its arguments."""
    for node in module.nodes:
        for origin, _, _ in imported(node, module.name):
            if origin.startswith(("remit.ledger.", "remit.store.", "time", "os", "pathlib")) and not origin.endswith(
                "goal_queries.Recorded"
            ):
                yield module.breach(
                    "memory", node, f"it imports {origin}", "Get it as an argument: rows of the ledger."
                )


def _loops(sources: Sources) -> Iterator[Violation]:
    for module in (*sources.core(), *sources.goals()):
        yield from _endless_in(module)
    for (file, name), most in MOST_MOVES.items():
        found = sources.module(file)
        bound = found.value(name) if found else None
        ranges = [ast.unparse(one.iter) for one in (found.nodes if found else ()) if isinstance(one, ast.For)]
        is_fixed = isinstance(bound, ast.Constant) and isinstance(bound.value, int) and 0 < bound.value <= most
        if not is_fixed or f"range({name})" not in ranges:
            yield missing_violation("loop", file, f"a loop over range({name}), a number up to {most},")
    driver = sources.module(DRIVER)
    waited = driver.shape("StepsDriver", "_wait_until") if driver else None
    if waited is None or f"seconds = {WAIT}" not in ast.unparse(waited):
        yield missing_violation("loop", DRIVER, f"the bounded wait for an attempt ({WAIT})")


@lru_cache(maxsize=1_000)
def _endless_in(module: Module) -> tuple[Violation, ...]:
    return tuple(_endless(module))


def _endless(module: Module) -> Iterator[Violation]:
    next_step = "Write a `for` over a range with a fixed bound, or over a finished list."
    for node in module.nodes:
        if isinstance(node, ast.While) and (module.name not in WALKING or isinstance(node.test, ast.Constant)):
            yield module.breach("loop", node, f"it has `while {ast.unparse(node.test)}`", next_step)
        if isinstance(node, ast.Name | ast.Attribute) and module.origin(node) in {
            f"itertools.{one}" for one in ENDLESS
        }:
            yield module.breach("loop", node, f"it uses {module.last_name(node)}", next_step)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "iter" and len(node.args) > 1:
            yield module.breach("loop", node, "it calls a function until it gives a value", next_step)
        if isinstance(node, ast.Attribute) and module.origin(node) == "time.sleep" and module.name != DRIVER:
            yield module.breach("loop", node, "it sleeps", "Only the driver waits, for the next attempt of a step.")
