"""What the guardrails list is there: a rule about a module or a name that is gone would check nothing."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from scripts import agent_guardrails_lists as lists

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SOURCES: Final = ROOT / "src" / "remit"
NAMED: Final[dict[str, frozenset[str]]] = {
    **lists.PURE,
    **lists.LEDGER,
    **lists.COMMON,
    **lists.RUNNER_IMPORTS,
    **{module: names for only in lists.FILE_IMPORTS.values() for module, names in only.items()},
}
FILE: Final = re.compile(r'"([a-z_]+(?:/[a-z_]+)*(?:/\*)?\.py)"')


def listed_files() -> set[str]:
    scripts = sorted((ROOT / "scripts").glob("agent_guardrails*.py"))
    return {found.removeprefix("src/remit/") for script in scripts for found in FILE.findall(script.read_text())}


def test_every_file_that_a_guardrail_names_is_there() -> None:
    listed = listed_files()
    assert len(listed) >= 10
    gone = sorted(name for name in listed if not list(SOURCES.glob(name)))
    assert gone == [], f"teach scripts/agent_guardrails_lists.py the new places of {gone}"


def test_every_part_of_the_goals_outside_the_core_is_there() -> None:
    assert [name for name in lists.OUTSIDE_THE_CORE if not (SOURCES / name).exists()] == []
    assert [name for name in lists.AROUND_THE_CORE if not list(SOURCES.glob(name))] == []


@pytest.mark.parametrize(
    "listed", [NAMED, dict.fromkeys(lists.NOT_FOR_THE_CORE, lists.ANY)], ids=["allowed", "kept out"]
)
def test_every_module_and_name_that_is_listed_is_there(listed: Mapping[str, frozenset[str]]) -> None:
    gone = []
    for module, names in listed.items():
        found = importlib.import_module(module)
        gone += [f"{module}.{name}" for name in names - lists.ANY if not hasattr(found, name)]
    assert gone == []


def test_everything_in_the_list_of_makers_and_writers_is_defined_somewhere() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    for name in (*lists.CONSTRUCTED_IN, *lists.WRITERS):
        assert re.search(rf"(class|def) {name}\b", text), name
