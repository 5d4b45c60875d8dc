"""What cannot be seen is spelled out wherever a plan is shown, and names stand by themselves on a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Remit
from tests.cli.terminal import run_in_terminal

pytestmark = pytest.mark.req("PV-10")

UNSEEN = [0x034F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x1D159, 0x2065, 0xFFF0, 0xE0FFF]
HEBREW = "\u05d0\u05d1"


def create(target: str, content: str) -> dict[str, Any]:
    return {
        "action_id": "a1",
        "action_type": "FILE_CREATE",
        "target": target,
        "operation": {"type": "write", "content": content},
    }


@pytest.fixture
def project(remit: Remit, tmp_path: Path) -> Path:
    assert remit("init").code == 0
    return tmp_path / "project"


def test_each_character_without_a_picture_is_spelled_out_in_a_diff(remit: Remit, project: Path) -> None:
    content = "".join(f"pay{chr(point)}load\n" for point in UNSEEN)
    (project / "plan.json").write_text(json.dumps({"plan_id": "p", "action_plan": [create("a.txt", content)]}))
    shown = remit("preview", "plan.json").out
    spelled = [f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}" for point in UNSEEN]
    assert [each for each in spelled if f"+pay{each}load" not in shown] == []
    assert [hex(point) for point in UNSEEN if chr(point) in shown] == []


def test_names_from_right_to_left_are_isolated_on_a_terminal_and_left_as_they_are_in_a_file(
    remit: Remit, project: Path
) -> None:
    (project / HEBREW).mkdir()
    (project / HEBREW / "10.txt").write_text("one\n")
    rename = {
        "action_id": f"r{HEBREW}/7",
        "action_type": "FILE_RENAME",
        "target": f"{HEBREW}/10.txt",
        "operation": {"type": "rename", "new_path": f"{HEBREW}/20.txt"},
    }
    plan = {"plan_id": f"p{HEBREW}/9", "action_plan": [create(f"docs/{HEBREW}.txt", "x\n"), rename]}
    (project / "plan.json").write_text(json.dumps(plan))
    seen = run_in_terminal(project, "preview", "plan.json", answers=())
    assert seen.code == 0, seen
    for line in (
        f"Plan \u2068p{HEBREW}/9\u2069: 2 changes",
        f"\u2068r{HEBREW}/7\u2069: rename \u2068{HEBREW}/10.txt\u2069 -> \u2068{HEBREW}/20.txt\u2069",
        f"a1: create \u2068docs/{HEBREW}.txt\u2069",
        f"+++ \u2068b/docs/{HEBREW}.txt\u2069",
        f"rename from \u2068{HEBREW}/10.txt\u2069",
        f"rename to \u2068{HEBREW}/20.txt\u2069",
    ):
        assert line in seen.shown, (line, seen)
    piped = remit("preview", "plan.json").out
    assert (f"docs/{HEBREW}.txt" in piped, "\u2068" in piped) == (True, False), "it can be copied as it stands"
