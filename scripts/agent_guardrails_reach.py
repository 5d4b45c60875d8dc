"""What the core reaches: which modules, which writers, which ways to an effect. Whatever is not listed is a breach."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from scripts.agent_guardrails_lists import (
    ANY,
    COMMON,
    FILE_WRITES,
    FROM_LISTED_NAMES,
    HIDDEN,
    KINDS,
    MADE_IN,
    NO_STATEMENT,
    NOT_FOR_THE_CORE,
    ONLY_THERE,
    PASSES_ON,
    READS,
    ROUND_THE_BACK,
    RUNNER_FILES,
    RUNNER_IMPORTS,
    SMUGGLED,
    STATEMENTS,
    TO_AN_EFFECT,
    TRANSCRIPT,
    WRITERS,
    WRITES,
    WRITING_SQL,
)
from scripts.agent_guardrails_sources import Module, Sources, Violation, imported, is_core, text_of


def check_reach(sources: Sources) -> Iterator[Violation]:
    for module in (*sources.core(), *sources.goals()):
        yield from _reached_from(module)
    yield from _once(sources)


@lru_cache(maxsize=1_000)
def _reached_from(module: Module) -> tuple[Violation, ...]:
    checks = (_imports, _indirect, _effects, _writes, _texts)
    return tuple(violation for check in checks for violation in check(module))


def _allowed(name: str) -> dict[str, frozenset[str]]:
    return {**COMMON, **(RUNNER_IMPORTS if name in RUNNER_FILES else {}), **ONLY_THERE.get(name, {})}


def _imports(module: Module) -> Iterator[Violation]:
    allowed = _allowed(module.name)
    for node in module.nodes:
        for origin, _, is_name in imported(node, module.name):
            home, _, name = origin.rpartition(".") if is_name else (origin, "", "")
            if _is_open(module, home, origin):
                continue
            listed = allowed.get(home)
            # A whole module under a name of its own could be asked for anything that is in it.
            if listed is not None and (listed == ANY or name in listed) and name not in SMUGGLED:
                continue
            rule = "direct-write" if origin.startswith(WRITES) and _root_of(origin) in WRITES else "bypass"
            yield module.breach(
                rule,
                node,
                f"it imports {origin}",
                "Go through the SimulationExecutor, or the ledger's append functions; what is new and harmless is"
                " listed in scripts/agent_guardrails_lists.py.",
            )


def _root_of(origin: str) -> str:
    return ".".join(origin.split(".")[:2]) if origin.startswith("remit.") else origin.partition(".")[0]


def _is_open(module: Module, home: str, origin: str) -> bool:
    """The core's own rooms and the contracts. The executor and the runner are not the core's."""
    asks = is_core(module.name) and module.name != "goals/simulation_executor.py"
    if asks and (home in NOT_FOR_THE_CORE or origin in NOT_FOR_THE_CORE):
        return False
    if home.startswith("remit.contracts."):
        return True
    path = home.removeprefix("remit.").replace(".", "/")
    named = f"{path}/{origin.rpartition('.')[2]}"
    return all(is_core(each) for each in (path, f"{path}.py", named, f"{named}.py"))


def _indirect(module: Module) -> Iterator[Violation]:
    """A name that is put together cannot be followed, so nobody may."""
    mend = "Write the name out, so that it can be seen what is reached."
    inside = _Inside(module)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id in ROUND_THE_BACK:
            yield module.breach("bypass", node, f"it uses {node.id}", mend)
        if isinstance(node, ast.Attribute) and node.attr in HIDDEN and ast.unparse(node) != "object.__setattr__":
            yield module.breach("bypass", node, f"it uses {node.attr}", mend)
        if isinstance(node, ast.Attribute) and node.attr in SMUGGLED:
            yield module.breach("bypass", node, f"it takes .{node.attr} out of another module", mend)
        if isinstance(node, ast.Name) and node.id == "getattr":
            call = inside.calls.get(id(node))
            named = text_of(call.args[1]) if call is not None and len(call.args) > 1 else None
            if named is None and (module.name, inside.names.get(id(node), "")) not in FROM_LISTED_NAMES:
                yield module.breach("bypass", node, "it asks by a name that is not written out", mend)
            if named in TO_AN_EFFECT | SMUGGLED:
                yield module.breach("bypass", node, f"it reaches .{named} by its name", mend)
            if named in STATEMENTS | FILE_WRITES | {"insert"}:
                yield module.breach("direct-write", node, f"it reaches .{named} by its name", mend)


class _Inside:
    """Which call a name is called by, and which function it stands in."""

    def __init__(self, module: Module) -> None:
        self.calls = {id(call.func): call for call in module.calls}
        self.names: dict[int, str] = {}
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef):
                self.names.update((id(one), node.name) for one in ast.walk(node))


def _effects(module: Module) -> Iterator[Violation]:
    mend = "Only goals/simulation_executor.py moves the runner; the core asks the SimulationExecutor, once."
    if module.name == "goals/simulation_executor.py" or module.name in RUNNER_FILES:
        return
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in TO_AN_EFFECT - {"dispatch"}:
            yield module.breach("bypass", node, f"it reaches .{node.attr}", mend)
        elif isinstance(node, ast.Name | ast.Attribute) and module.origin(node).startswith("remit.execution.engine."):
            yield module.breach("bypass", node, f"it uses {module.ends(node)}", mend)


def _writes(module: Module) -> Iterator[Violation]:
    mend = "Write through append_step, append_agent_row or store_documents, where the core already does."
    for node in module.nodes:
        what = ""
        if isinstance(node, ast.Call):
            what = _written_by_call(module, node)
        elif isinstance(node, ast.Name | ast.Attribute):
            what = _written_by_name(module, node)
        if what:
            yield module.breach("direct-write", node, what, mend)


def _written_by_call(module: Module, node: ast.Call) -> str:
    called = node.func
    if module.ends(called) == "NewEntry" and module.origin(called).startswith("remit.ledger."):
        kind = ast.unparse(node.args[1]) if len(node.args) > 1 else "nobody knows"
        return "" if kind in KINDS else f"it appends an event of the kind {kind}"
    if not isinstance(called, ast.Attribute):
        return ""
    if called.attr == "insert" and not _is_a_place(node):
        return "it inserts a row"
    # A text's has two arguments, a date's has names; a path's has one.
    is_paths = called.attr == "replace" and len(node.args) == 1
    return f"it writes to a file by .{called.attr}" if called.attr in FILE_WRITES or is_paths else ""


def _written_by_name(module: Module, node: ast.Name | ast.Attribute) -> str:
    end = module.ends(node)
    if end in WRITERS and module.name not in WRITERS[end] and _is_ours(module, node):
        return f"it uses {end}"
    if isinstance(node, ast.Name):
        return "it opens a file" if node.id == "open" else ""
    if node.attr in STATEMENTS and (module.name, ast.unparse(node)) not in NO_STATEMENT:
        return f"it runs a statement by .{node.attr}"
    is_of_store = isinstance(node.value, ast.Attribute) and node.value.attr == "store"
    return f"it uses .store.{node.attr}" if is_of_store and node.attr not in READS else ""


def _is_ours(module: Module, node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node, ast.Attribute) or module.origin(node).startswith("remit.ledger.")


def _is_a_place(node: ast.Call) -> bool:
    """As a list has it: the first argument is a number."""
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, int)


def _texts(module: Module) -> Iterator[Violation]:
    mend = "The core records through the ledger's own functions and keeps no transcript."
    for node in module.nodes:
        if id(node) in module.docstrings:
            continue
        text = text_of(node)
        if text is not None and WRITING_SQL.search(text):
            yield module.breach("direct-write", node, "it holds SQL that writes", mend)
        named = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else text or ""
        if TRANSCRIPT.search(named):
            yield module.breach("direct-write", node, "it names a transcript", mend)


def _once(sources: Sources) -> Iterator[Violation]:
    """In all of Remit: one place that dispatches, one that puts the executor together, one that makes its runner."""
    for thing, where in MADE_IN.items():
        for module in sources.modules("**/*.py", mentioning=thing):
            for call in module.calls:
                if module.ends(call.func) == thing and module.name != where:
                    yield module.breach("bypass", call, f"it makes a {thing}", f"Only src/remit/{where} makes one.")
    seen = 0
    for module in sources.modules("**/*.py", mentioning="dispatch"):
        for node in module.nodes:
            if not (isinstance(node, ast.Attribute) and node.attr == "dispatch") or _is_fine(module, node):
                continue
            seen += module.name == "goals/core.py"
            if module.name != "goals/core.py" or seen > 1:
                mend = "AgentCore._dispatch is the only place that asks for a dispatch, and it asks once."
                yield module.breach("bypass", node, "it asks for a dispatch", mend)


def _is_fine(module: Module, node: ast.Attribute) -> bool:
    return module.origin(node).endswith("contracts.dispatch") or (module.name, ast.unparse(node)) in PASSES_ON
