"""Two versions' surfaces side by side. Each difference is one line of text; the reviewed ones stand in a file."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.compat.versions import run_with

PROBE: Final = Path(__file__).with_name("probe.py")
REVIEWED: Final = Path(__file__).with_name("differences.toml")
SHORT: Final = 60


@dataclass(frozen=True, slots=True)
class Review:
    """What was compared with the list: both empty, and the surfaces are as they were reviewed."""

    unexpected: tuple[str, ...]
    """Differences that the list does not have."""
    missing: tuple[str, ...]
    """Differences that the list has and that there are none of."""

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.missing


def read_surfaces(source: Path) -> dict[str, Any]:
    """What the version in this folder shows to its users."""
    done = run_with(source, str(PROBE))
    if done.returncode:
        raise RuntimeError(f"the surfaces of {source} could not be read:\n{done.stdout[-500:]}{done.stderr[-3_000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(before: Any, after: Any) -> list[str]:
    """`+` is new, `-` is gone, `~` is another. What is new or gone as a whole is one line, with a digest of it."""
    return sorted(_differences(before, after, ()))


def _differences(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            below = (*path, key)
            if key not in after:
                yield f"{_place(below)} - {_shown(before[key])}"
            elif key not in before:
                yield f"{_place(below)} + {_shown(after[key])}"
            else:
                yield from _differences(before[key], after[key], below)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, (*path, str(at)))
    elif before != after or type(before) is not type(after):
        yield f"{_place(path)} ~ {_shown(before)} -> {_shown(after)}"


def _place(path: tuple[str, ...]) -> str:
    surface, *rest = path
    return f"{surface}: {' > '.join(rest)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return text if len(text) <= SHORT else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def reviewed(path: Path = REVIEWED) -> dict[str, str]:
    """Each reviewed difference with its reason. One that is listed twice has two reasons: which one holds?"""
    found: dict[str, str] = {}
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
        for line in group["differences"]:
            if line in found or not group["reason"].strip():
                raise ValueError(f"{path.name}: listed twice, or without a reason: {line}")
            found[line] = group["reason"]
    return found


def compare(found: list[str], known: dict[str, str]) -> Review:
    return Review(
        tuple(line for line in found if line not in known), tuple(line for line in known if line not in set(found))
    )
