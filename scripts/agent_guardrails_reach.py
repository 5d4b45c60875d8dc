"""Guardrails for what the core reaches: modules, writers, and ways to an effect. All that is not listed is a breach."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from scripts.agent_guardrails_lists import (
    ANY,
    COMMON,
    CONSTRUCTED_IN,
    EFFECT_METHODS,
    FILE_IMPORTS,
    FILE_WRITES,
    FORWARDED,
    FROM_LISTED_NAMES,
    HIDDEN_ATTRIBUTES,
    INDIRECT_ACCESS,
    KINDS,
    NESTED_MODULES,
    NO_STATEMENT,
    NOT_FOR_THE_CORE,
    READS,
    RUNNER_FILES,
    RUNNER_IMPORTS,
    STATEMENTS,
    TRANSCRIPT,
    WRITERS,
    WRITES,
    WRITING_SQL,
)
from scripts.agent_guardrails_sources import Module, Sources, Violation, imported, is_core, text_of


def check_reach(sources: Sources) -> Iterator[Violation]:
    for module in (*sources.core(), *sources.goals()):
        yield from _check_module(module)
    yield from _check_single_use(sources)


@lru_cache(maxsize=1_000)
def _check_module(module: Module) -> tuple[Violation, ...]:
    checks = (_imports, _indirect, _effects, _writes, _texts)
    return tuple(violation for check in checks for violation in check(module))


def _allowed(name: str) -> dict[str, frozenset[str]]:
    return {**COMMON, **(RUNNER_IMPORTS if name in RUNNER_FILES else {}), **FILE_IMPORTS.get(name, {})}


def _imports(module: Module) -> Iterator[Violation]:
    allowed = _allowed(module.name)
    for node in module.nodes:
        for origin, _, is_name in imported(node, module.name):
            home, _, name = origin.rpartition(".") if is_name else (origin, "", "")
            if _is_importable(module, home, origin):
                continue
            listed = allowed.get(home)
            # An import of a whole module gives access to everything in it.
            if listed is not None and (listed == ANY or name in listed) and name not in NESTED_MODULES:
                continue
            rule = "direct-write" if origin.startswith(WRITES) and _find_root(origin) in WRITES else "bypass"
            yield module.breach(
                rule,
                node,
                f"it imports {origin}",
                "Use the SimulationExecutor, or the ledger's append functions. List a new harmless import"
                " in scripts/agent_guardrails_lists.py.",
            )


def _find_root(origin: str) -> str:
    return ".".join(origin.split(".")[:2]) if origin.startswith("remit.") else origin.partition(".")[0]


def _is_importable(module: Module, home: str, origin: str) -> bool:
    """Return whether an import is of the core itself or of the contracts. Executor and runner are not in the core."""
    is_restricted = is_core(module.name) and module.name != "goals/simulation_executor.py"
    if is_restricted and (home in NOT_FOR_THE_CORE or origin in NOT_FOR_THE_CORE):
        return False
    if home.startswith("remit.contracts."):
        return True
    path = home.removeprefix("remit.").replace(".", "/")
    named = f"{path}/{origin.rpartition('.')[2]}"
    return all(is_core(each) for each in (path, f"{path}.py", named, f"{named}.py"))


def _indirect(module: Module) -> Iterator[Violation]:
    """Find names that are built at run time. The checks cannot follow them, so they are not allowed."""
    next_step = "Write the name as a constant, so that the check can see what it reaches."
    context = _CallContext(module)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id in INDIRECT_ACCESS:
            yield module.breach("bypass", node, f"it uses {node.id}", next_step)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in HIDDEN_ATTRIBUTES
            and ast.unparse(node) != "object.__setattr__"
        ):
            yield module.breach("bypass", node, f"it uses {node.attr}", next_step)
        if isinstance(node, ast.Attribute) and node.attr in NESTED_MODULES:
            yield module.breach("bypass", node, f"it uses .{node.attr} of another module", next_step)
        if isinstance(node, ast.Name) and node.id == "getattr":
            call = context.calls.get(id(node))
            named = text_of(call.args[1]) if call is not None and len(call.args) > 1 else None
            if named is None and (module.name, context.names.get(id(node), "")) not in FROM_LISTED_NAMES:
                yield module.breach("bypass", node, "it calls getattr with a name that is not a constant", next_step)
            if named in EFFECT_METHODS | NESTED_MODULES:
                yield module.breach("bypass", node, f"it reaches .{named} by its name", next_step)
            if named in STATEMENTS | FILE_WRITES | {"insert"}:
                yield module.breach("direct-write", node, f"it reaches .{named} by its name", next_step)


class _CallContext:
    """The call that each name belongs to, and the function around it."""

    def __init__(self, module: Module) -> None:
        self.calls = {id(call.func): call for call in module.calls}
        self.names: dict[int, str] = {}
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef):
                self.names.update((id(one), node.name) for one in ast.walk(node))


def _effects(module: Module) -> Iterator[Violation]:
    next_step = "Only goals/simulation_executor.py calls the runner. The core calls the SimulationExecutor once."
    if module.name == "goals/simulation_executor.py" or module.name in RUNNER_FILES:
        return
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in EFFECT_METHODS - {"dispatch"}:
            yield module.breach("bypass", node, f"it reaches .{node.attr}", next_step)
        elif isinstance(node, ast.Name | ast.Attribute) and module.origin(node).startswith("remit.execution.engine."):
            yield module.breach("bypass", node, f"it uses {module.last_name(node)}", next_step)


def _writes(module: Module) -> Iterator[Violation]:
    next_step = "Write through append_step, append_agent_row or store_documents, in the functions that do so already."
    for node in module.nodes:
        what = ""
        if isinstance(node, ast.Call):
            what = _written_by_call(module, node)
        elif isinstance(node, ast.Name | ast.Attribute):
            what = _written_by_name(module, node)
        if what:
            yield module.breach("direct-write", node, what, next_step)


def _written_by_call(module: Module, node: ast.Call) -> str:
    called = node.func
    if module.last_name(called) == "NewEntry" and module.origin(called).startswith("remit.ledger."):
        kind = ast.unparse(node.args[1]) if len(node.args) > 1 else "unknown"
        return "" if kind in KINDS else f"it appends an event of the kind {kind}"
    if not isinstance(called, ast.Attribute):
        return ""
    if called.attr == "insert" and not _is_list_index(node):
        return "it inserts a row"
    # `replace` of a text has two arguments, that of a date has keywords, and that of a path has one argument.
    is_paths = called.attr == "replace" and len(node.args) == 1
    return f"it writes to a file with .{called.attr}" if called.attr in FILE_WRITES or is_paths else ""


def _written_by_name(module: Module, node: ast.Name | ast.Attribute) -> str:
    end = module.last_name(node)
    if end in WRITERS and module.name not in WRITERS[end] and _is_ledger_name(module, node):
        return f"it uses {end}"
    if isinstance(node, ast.Name):
        return "it opens a file" if node.id == "open" else ""
    if node.attr in STATEMENTS and (module.name, ast.unparse(node)) not in NO_STATEMENT:
        return f"it runs a statement with .{node.attr}"
    is_of_store = isinstance(node.value, ast.Attribute) and node.value.attr == "store"
    return f"it uses .store.{node.attr}" if is_of_store and node.attr not in READS else ""


def _is_ledger_name(module: Module, node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node, ast.Attribute) or module.origin(node).startswith("remit.ledger.")


def _is_list_index(node: ast.Call) -> bool:
    """Return whether this is `insert` of a list, whose first argument is a number."""
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, int)


def _texts(module: Module) -> Iterator[Violation]:
    next_step = "Record through the functions of the ledger, and write no transcript."
    for node in module.nodes:
        if id(node) in module.docstrings:
            continue
        text = text_of(node)
        if text is not None and WRITING_SQL.search(text):
            yield module.breach("direct-write", node, "it contains SQL that writes", next_step)
        named = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else text or ""
        if TRANSCRIPT.search(named):
            yield module.breach("direct-write", node, "it names a transcript", next_step)


def _check_single_use(sources: Sources) -> Iterator[Violation]:
    """Check that only one place in Remit dispatches, only one builds the executor, and only one builds its runner."""
    for constructed, where in CONSTRUCTED_IN.items():
        for module in sources.modules("**/*.py", mentioning=constructed):
            for call in module.calls:
                if module.last_name(call.func) == constructed and module.name != where:
                    yield module.breach(
                        "bypass", call, f"it creates a {constructed}", f"Only src/remit/{where} may create one."
                    )
    dispatches = 0
    for module in sources.modules("**/*.py", mentioning="dispatch"):
        for node in module.nodes:
            if not (isinstance(node, ast.Attribute) and node.attr == "dispatch") or _is_allowed_dispatch(module, node):
                continue
            dispatches += module.name == "goals/core.py"
            if module.name != "goals/core.py" or dispatches > 1:
                next_step = "Only AgentCore._dispatch may call dispatch, and only once."
                yield module.breach("bypass", node, "it calls dispatch", next_step)


def _is_allowed_dispatch(module: Module, node: ast.Attribute) -> bool:
    return module.origin(node).endswith("contracts.dispatch") or (module.name, ast.unparse(node)) in FORWARDED
