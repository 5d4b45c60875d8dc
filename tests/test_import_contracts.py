"""The import contracts can fail: each forbidden import, planted in an empty copy of the map, is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALWAYS_THERE = [
    "errors",
    "canonical",
    "masking",
    "durable",
    "untrusted",
    "ids",
    "turns",
    "state",
    "faultpoints",
    "printable",
    "syscalls",
    "tally",
    "version",
    "contracts",
]
ONE_WAY = "Imports go one way BROKEN"
HANDS = "Effects and the sandboxed child know only the lowest group"


def _lint(folder: Path, rooms: dict[str, str]) -> tuple[int, str]:
    """Run the project's contracts over a package `remit` that consists of the given files."""
    package = folder / "remit"
    for name, source in {"__init__": "", **dict.fromkeys(ALWAYS_THERE, ""), **rooms}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source)
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_an_empty_map_and_an_allowed_import_pass(tmp_path: Path) -> None:
    code, said = _lint(tmp_path, {"ledger/append": "import remit.store.rows", "store/rows": "import remit.errors"})
    assert (code, "2 kept, 0 broken" in said) == (0, True), said


@pytest.mark.parametrize(
    "rooms, broken",
    [
        ({"errors": "import remit.contracts"}, ONE_WAY),
        ({"authority/keys": "import remit.road", "road": ""}, ONE_WAY),
        ({"effects/files": "import remit.store.rows", "store/rows": ""}, HANDS),
        (
            {
                "effects/files": "import remit.confine.names",
                "confine/names": "import remit.store.rows",
                "store/rows": "",
            },
            HANDS,
        ),
        ({"sandbox/child": "import remit.authority.keys", "authority/keys": ""}, HANDS),
        ({"sandbox/child": "import remit.sandbox.host", "sandbox/host": ""}, HANDS),
        ({"effects/files": "import remit.kernel.kernel", "kernel/kernel": ""}, HANDS),
        ({"sandbox/child": "import remit.kernel.kernel", "kernel/kernel": ""}, HANDS),
        ({"sandbox/host": "import remit.kernel.kernel", "kernel/kernel": ""}, ONE_WAY),
        ({"doors/task": "import remit.kernel.kernel", "kernel/kernel": ""}, ONE_WAY),
        ({"effects/files": "import remit.plans", "plans": ""}, HANDS),
        ({"sandbox/child": "import remit.opening", "opening": ""}, HANDS),
        ({"doors/plan": "import remit.plans", "plans": ""}, ONE_WAY),
        ({"checkpoint/manifest": "import remit.reports.run", "reports/run": ""}, ONE_WAY),
        ({"agent/core": "import remit.promotion", "promotion": ""}, ONE_WAY),
    ],
    ids=[
        "upwards",
        "skipping up",
        "effects to store",
        "effects to store by way of confine",
        "child to keys",
        "child to host",
        "effects to kernel",
        "child to kernel",
        "sandbox host to kernel",
        "door to kernel",
        "effects to plans",
        "child to opening",
        "door to plans",
        "checkpoint to reports",
        "agent to promotion",
    ],
)
@pytest.mark.req("EI-17")
def test_a_forbidden_import_is_found(tmp_path: Path, rooms: dict[str, str], broken: str) -> None:
    code, said = _lint(tmp_path, rooms)
    assert code == 1, said
    assert any(line.startswith(broken) and line.endswith("BROKEN") for line in said.splitlines()), said


def test_a_room_that_is_not_on_the_map_is_found(tmp_path: Path) -> None:
    code, said = _lint(tmp_path, {"helpers": ""})
    assert code == 1
    assert "helpers" in said
