"""A copy of what the guardrails look at, to plant a violation in. Nobody loads it: the static rules read."""

import shutil
from pathlib import Path
from typing import Final

from scripts.agent_guardrails import STATIC, static_violations
from scripts.agent_guardrails_catalogues import check_catalogues
from scripts.agent_guardrails_fields import check_fields
from scripts.agent_guardrails_reach import check_reach
from scripts.agent_guardrails_shape import check_shape
from scripts.agent_guardrails_sources import Violation
from scripts.agent_guardrails_steps import check_steps

ROOT: Final = Path(__file__).resolve().parent.parent.parent
NEEDED: Final = (
    "goals",
    "contracts",
    "workspace/container.py",
    "workspace/workspace.py",
    "ledger/projections.py",
    "ledger/goal_tables.py",
)
CHECKS: Final = {
    "bypass": (check_reach,),
    "direct-write": (check_reach,),
    "tool-dispatch": (check_shape,),
    "rollback": (check_shape, check_catalogues),
    "missing-dispatch": (check_shape,),
    "packet-proof": (check_fields,),
    "step-refs": (check_fields,),
    "sequence": (check_steps,),
    "memory": (check_steps,),
    "loop": (check_steps,),
}


class Copied:
    """Each planting is of its own: the copy is whole again afterwards."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        home = folder / "src" / "remit"
        for pattern in NEEDED:
            for path in sorted((ROOT / "src" / "remit").glob(pattern)):
                target = home / path.relative_to(ROOT / "src" / "remit")
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
                else:
                    shutil.copy(path, target)

    def found(self, *rules: str) -> list[Violation]:
        """By the checks of these rules, or by all."""
        return static_violations(self.root, [each for rule in rules for each in CHECKS[rule]] or STATIC)

    def with_edit(self, file: str, old: str, new: str, *rules: str) -> list[Violation]:
        """What is found once `old`, which must be there, is `new`. An empty `old` stands for the end of the file."""
        path = self.root / "src" / "remit" / file
        before = path.read_text()
        assert old in before, f"{file} has no {old!r} any more"
        path.write_text(before.replace(old, new, 1) if old else before + new)
        try:
            return self.found(*rules)
        finally:
            path.write_text(before)

    def with_file(self, file: str, text: str) -> list[Violation]:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        try:
            return self.found("rollback")
        finally:
            path.unlink()
