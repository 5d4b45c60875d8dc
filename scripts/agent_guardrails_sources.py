"""The sources that the guardrails read: syntax trees of all files below a root, with the origins of names.

Limit: a name is followed through imports and plain assignments. Other ways (`eval`, a name that is built at run time)
are not followed. The rules do not allow them.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from scripts.agent_guardrails_lists import AROUND_THE_CORE, OUTSIDE_THE_CORE

RULES: Final = {
    "bypass": "the agent bypasses the SimulationExecutor",
    "direct-write": "the agent writes business state directly",
    "tool-dispatch": "the agent dispatches a tool as a simulation",
    "rollback": "an impactful simulation has no rollback reference",
    "missing-dispatch": "a MissingSimulationPacket can reach a dispatch",
    "packet-proof": "a Finder packet lacks a required proof or idempotency field",
    "step-refs": "an execution step lacks its policy snapshot or artifact fingerprint ref",
    "sequence": "a step of a goal can run without its turn",
    "memory": "a goal with several steps continues from memory",
    "loop": "a loop of the agent has no bound",
}
Shape = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """A breach of a rule at one place, with the next step."""

    rule: str
    file: str
    line: int
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.file}:{self.line}: {RULES[self.rule]}: {self.what}. {self.next_step}"


@dataclass(frozen=True, eq=False)
class Module:
    """One source file. `name` is its path below src/remit."""

    file: str
    name: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def docstrings(self) -> frozenset[int]:
        """The ids of the nodes that are docstrings."""
        alone = (node.value for node in self.nodes if isinstance(node, ast.Expr))
        return frozenset(id(value) for value in alone if isinstance(value, ast.Constant))

    @cached_property
    def origins(self) -> dict[str, str]:
        """The origin of each name of this file, from imports first and then from plain assignments."""
        found = (each for node in self.nodes for each in imported(node, self.name))
        known = {name: origin for origin, name, _ in found if name}
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                origin = self._follow(node.value, known)
                for target in targets:
                    if isinstance(target, ast.Name) and origin:
                        known.setdefault(target.id, origin)
        return known

    def origin(self, node: ast.AST) -> str:
        """Return the origin of the name under a node, such as remit.contracts.goals.dispatch.DispatchEnvelope."""
        return self._follow(node, self.origins)

    def last_name(self, node: ast.AST) -> str:
        """Return the last part of the origin, which is the name in its own module."""
        return self.origin(node).rpartition(".")[2]

    def _follow(self, node: ast.AST, known: dict[str, str]) -> str:
        if isinstance(node, ast.Name):
            return known.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self._follow(node.value, known)
            return f"{base}.{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            named = text_of(node.args[1]) if len(node.args) > 1 else None
            return f"{self._follow(node.args[0], known)}.{named}" if named else ""
        return ""

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.Call))

    def shape(self, *path: str) -> Shape | None:
        """Find a class or function by its name, or one inside a class."""
        body: list[ast.stmt] = self.tree.body
        found: Shape | None = None
        for name in path:
            shapes = (one for one in body if isinstance(one, ast.FunctionDef | ast.ClassDef))
            found = next((one for one in shapes if one.name == name), None)
            if found is None:
                return None
            body = found.body
        return found

    def value(self, name: str) -> ast.expr | None:
        """Return the expression that is assigned to a name of the module."""
        for node in self.tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                return node.value
            if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == [name]:
                return node.value
        return None

    def breach(self, rule: str, node: ast.AST | None, what: str, next_step: str) -> Violation:
        return Violation(rule, self.file, getattr(node, "lineno", 1), what, next_step)


def is_core(name: str) -> bool:
    """Return whether a path below src/remit belongs to the core of the goals. It is a module or a package."""
    outside = (name == each or name.startswith(f"{each}/") for each in OUTSIDE_THE_CORE)
    return name.startswith("goals/") and not any(outside)


@lru_cache(maxsize=1_000)
def _parsed(name: str, text: str) -> Module:
    file = f"src/remit/{name}"
    return Module(file, name, ast.parse(text, file))


@dataclass
class Sources:
    """The source files below a root. Each one is read once."""

    root: Path
    _read: dict[str, Module | None] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _listed: dict[str, list[str]] = field(default_factory=dict)

    def module(self, name: str) -> Module | None:
        if name not in self._read:
            path = self.root / "src" / "remit" / name
            self._read[name] = _parsed(name, self._text(name)) if path.is_file() else None
        return self._read[name]

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = (self.root / "src" / "remit" / name).read_text()
        return self._texts[name]

    def modules(self, pattern: str, *, mentioning: str = "") -> Iterator[Module]:
        """Yield the files below src/remit that match a pattern, in order. `mentioning`: only those with this word."""
        folder = self.root / "src" / "remit"
        if pattern not in self._listed:
            self._listed[pattern] = [str(path.relative_to(folder)) for path in sorted(folder.glob(pattern))]
        for name in self._listed[pattern]:
            found = self.module(name) if not mentioning or mentioning in self._text(name) else None
            if found is not None:
                yield found

    def core(self) -> Iterator[Module]:
        yield from (module for module in self.modules("goals/**/*.py") if is_core(module.name))

    def goals(self) -> Iterator[Module]:
        """Yield the modules around the core: those that build it, its rules, and those that run its actions."""
        for pattern in AROUND_THE_CORE:
            yield from self.modules(pattern)


def imported(node: ast.AST, name: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (origin, name in this file, whether it is a name of a module) for each import of a statement."""
    if isinstance(node, ast.Import):
        for one in node.names:
            yield one.name, one.asname or "", False
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            here = ["remit", *Path(name).parts[:-1]]
            above = here[: len(here) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for one in node.names:
            yield f"{base}.{one.name}", one.asname or one.name, True


def text_of(node: ast.AST) -> str | None:
    """Return the text of an expression, as far as the source shows it. Unknown parts become a space."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or " " for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        left, right = text_of(node.left), text_of(node.right)
        if isinstance(node.op, ast.Mod):
            return left
        return None if left is None and right is None else (left or " ") + (right or " ")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "format":
            return text_of(node.func.value)
        if node.func.attr == "join" and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
            return (text_of(node.func.value) or "").join(text_of(one) or " " for one in node.args[0].elts)
    return None


def missing_violation(rule: str, file: str, what: str) -> Violation:
    """Report that the object of a rule is missing. A rule without its object is not fulfilled."""
    return Violation(
        rule, f"src/remit/{file}", 1, f"{what} is missing", "Restore it, or change the guardrail to its new place."
    )


def union_in(node: ast.expr | None) -> set[str]:
    """Return the members of the union in `Annotated[A | B, ...]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and node.slice.elts:
        return members_of(node.slice.elts[0])
    return set()


def members_of(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return members_of(node.left) | members_of(node.right)
    return {ast.unparse(node)}


def field_of(shape: ast.AST | None, name: str) -> ast.AnnAssign | None:
    body = shape.body if isinstance(shape, ast.ClassDef) else []
    fields = (one for one in body if isinstance(one, ast.AnnAssign))
    return next((one for one in fields if isinstance(one.target, ast.Name) and one.target.id == name), None)


def is_required(shape: ast.AST, name: str, kind: str) -> bool:
    found = field_of(shape, name)
    return found is not None and found.value is None and ast.unparse(found.annotation) == kind


def calls_inside(module: Module, function: str) -> set[int]:
    found = (one for one in module.nodes if isinstance(one, ast.FunctionDef) and one.name == function)
    return {id(one) for shape in found for one in ast.walk(shape) if isinstance(one, ast.Call)}


def construction_in(module: Module, function: str, name: str) -> ast.Call | None:
    inside = calls_inside(module, function)
    return next((one for one in module.calls if id(one) in inside and module.last_name(one.func) == name), None)


def keyword_of(call: ast.Call, name: str) -> str:
    return next((ast.unparse(one.value) for one in call.keywords if one.arg == name), "")


def is_guarded_by(module: Module, call: ast.Call, condition: str) -> bool:
    """Return whether an `if` around the call has this condition, alone or joined with others by `and`."""
    for node in module.nodes:
        if not isinstance(node, ast.If) or not any(one is call for part in node.body for one in ast.walk(part)):
            continue
        conditions = (
            node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
        )
        if condition in {ast.unparse(one) for one in conditions}:
            return True
    return False
