"""Guardrails for catalogues that Remit ships or shows: each impactful simulation has a rollback and a known binding."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from remit.core.errors import RemitError
from remit.parsing.yaml import YAML_BOUNDS, parse_yaml
from scripts.agent_guardrails_shape import BINDINGS
from scripts.agent_guardrails_sources import Sources, Violation, text_of

FOLDERS: Final = ("docs", "src", "bench", "examples", "demo")
_FENCED: Final = re.compile(r"^```(?:yaml|yml|json)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NEXT_STEP: Final = "Name the simulation that rolls it back under `rollback`."


def check_catalogues(sources: Sources) -> Iterator[Violation]:
    for path in _files(sources.root):
        text = path.read_text(errors="replace")
        file = str(path.relative_to(sources.root))
        if path.suffix == ".py":
            yield from _in_source(file, text) if "access_action" in text else ()
        elif "simulations" not in text:
            continue
        elif path.suffix == ".md":
            for block in _FENCED.finditer(text):
                yield from _in_text(file, block[1], text.count("\n", 0, block.start(1)))
        else:
            yield from _in_text(file, text, 0)


def catalogue_files(root: Path) -> list[str]:
    """Return the files that are catalogues as a whole."""
    whole = (path for path in _files(root) if path.suffix not in {".md", ".py"})
    return [str(path.relative_to(root)) for path in whole if _tree(path.read_text(errors="replace")) is not None]


def _files(root: Path) -> Iterator[Path]:
    suffixes = {".yaml", ".yml", ".json", ".md", ".py"}
    yield from sorted(root.glob("*.md"))
    for folder in FOLDERS:
        found = (path for path in (root / folder).rglob("*") if path.suffix in suffixes)
        yield from sorted(path for path in found if path.is_file())


def _tree(text: str) -> Any:
    """Parse a catalogue. None if the text is not one."""
    if "impact" not in text or "simulations" not in text:
        return None
    try:
        tree = parse_yaml(text.encode(), YAML_BOUNDS, source="a catalogue")
    except RemitError:
        return None
    return tree if isinstance(tree, dict) and isinstance(tree.get("simulations"), list) else None


def _in_text(file: str, text: str, above: int) -> Iterator[Violation]:
    tree = _tree(text)
    for each in tree["simulations"] if tree else ():
        if not isinstance(each, dict):
            continue
        name = str(each.get("id", ""))
        place = text.find(name) if name else 0
        line = above + text.count("\n", 0, max(place, 0)) + 1
        binding = each.get("binding")
        kind = binding.get("type") if isinstance(binding, dict) else None
        yield from _judge(file, line, name, each.get("impact"), each.get("rollback"), kind)


@lru_cache(maxsize=1_000)
def _in_source(file: str, text: str) -> tuple[Violation, ...]:
    return tuple(_written_out(file, text))


def _written_out(file: str, text: str) -> Iterator[Violation]:
    """Check simulations that are written as a dict in Python."""
    for node in ast.walk(ast.parse(text, file)):
        if not isinstance(node, ast.Dict):
            continue
        members = {text_of(key): value for key, value in zip(node.keys, node.values, strict=True) if key is not None}
        if not {"impact", "binding", "access_action"} <= set(members) or None in node.keys:
            continue
        inner = members["binding"]
        kinds = zip(inner.keys, inner.values, strict=True) if isinstance(inner, ast.Dict) else ()
        kind = next((text_of(value) for key, value in kinds if key is not None and text_of(key) == "type"), "task")
        rollback = text_of(members["rollback"]) if "rollback" in members else None
        name, impact = (text_of(members[key]) if key in members else "" for key in ("id", "impact"))
        yield from _judge(file, node.lineno, name or "", impact, rollback, kind)


def _judge(file: str, line: int, name: str, impact: Any, rollback: Any, kind: Any) -> Iterator[Violation]:
    # The steps of a composite have their own rollbacks.
    if impact != "read_only" and kind != "composite" and (not rollback or rollback == name):
        yield Violation(
            "rollback", file, line, f"{name} is {impact} and names no other simulation as rollback", _NEXT_STEP
        )
    if kind not in BINDINGS.values():
        next_step = f"Bind it to one of {', '.join(BINDINGS.values())}."
        yield Violation("tool-dispatch", file, line, f"{name} is bound to {kind}", next_step)
