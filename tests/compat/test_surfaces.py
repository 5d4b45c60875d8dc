"""What users meet differs from the version that they have as reviewed, and in nothing else."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.compat.surfaces import compare, differences, read_surfaces, reviewed
from tests.compat.versions import BEFORE, ROOT, NoSuchVersionError, source_of

# In a copy of the source, one name of each surface is another: wherever it stands.
SEEDS = {
    "schemas": ('"rollback_on_failure"', '"rollback_if_failed"'),
    "openapi": ('"/v1/ledger/verify"', '"/v1/ledger/check"'),
    "commands": ('"--abandon"', '"--forsake"'),
    "dotted names": ('"lease.issued"', '"lease.made"'),
    "tables": ("proposal_previews_no_delete", "proposal_previews_no_removal"),
    "metrics": ('"remit_ledger_length"', '"remit_ledger_size"'),
    "reasons": ('"transition_invalid"', '"transition_wrong"'),
    "exit codes": ("exit_code = 2", "exit_code = 4"),
    "settings": ('"rollback_days"', '"rollback_weeks"'),
    "environment variables": ('"REMIT_LOG"', '"REMIT_LOGS"'),
    "capabilities": ('"plan.undo"', '"plan.unmake"'),
    "mcp tools": ('"task_status"', '"task_state"'),
    "state files": ('"approvals.bell"', '"questions.bell"'),
    "loggers": ('getLogger("remit.tasks")', 'getLogger("remit.jobs")'),
    "fault points": ('"prune.removed"', '"prune.gone"'),
    "public names": ("Misuse", "WrongUse"),
}


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Of the version that users have, of this one, and of a copy of this one with another name in each surface."""
    folder = tmp_path_factory.mktemp("versions")
    try:
        before = source_of(BEFORE, folder / "before")
    except NoSuchVersionError as problem:
        pytest.skip(str(problem))
    seeded = folder / "seeded"
    shutil.copytree(ROOT / "src", seeded, ignore=shutil.ignore_patterns("__pycache__"))
    for path in seeded.rglob("*.*"):
        _seed(path)
    sources = {"before": before, "now": ROOT / "src", "seeded": seeded}
    with ThreadPoolExecutor() as pool:
        yield dict(zip(sources, pool.map(read_surfaces, sources.values()), strict=True))


def _seed(path: Path) -> None:
    if path.suffix not in {".py", ".json", ".sql"}:
        return
    text = path.read_text(encoding="utf-8")
    changed = text
    for old, new in SEEDS.values():
        changed = changed.replace(old, new)
    if changed != text:
        path.write_text(changed, encoding="utf-8")


def test_what_users_meet_differs_as_reviewed_and_in_nothing_else(surfaces: dict[str, Any]) -> None:
    found = compare(differences(surfaces["before"], surfaces["now"]), reviewed())
    assert found.unexpected == ()
    assert found.missing == ()


def test_every_reason_that_is_new_or_has_another_code_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = changelog.partition("## [Unreleased]")[2].partition("\n## [")[0]
    moved = {found[1] for line in reviewed() if (found := re.match(r"reasons: (\w+)", line))}
    assert "config_invalid" in moved
    assert [reason for reason in sorted(moved) if f"`{reason}`" not in unreleased] == []


@pytest.mark.parametrize("surface", SEEDS)
def test_another_name_in_a_surface_is_found(surfaces: dict[str, Any], surface: str) -> None:
    assert differences(surfaces["now"][surface], surfaces["seeded"][surface])
    found = compare(differences(surfaces["before"], surfaces["seeded"]), reviewed())
    assert any(line.startswith(f"{surface}: ") for line in found.unexpected)


def test_every_surface_has_a_seed_and_is_not_empty(surfaces: dict[str, Any]) -> None:
    assert surfaces["now"].keys() == SEEDS.keys()
    assert all(surfaces["now"].values())


def test_a_reviewed_difference_that_is_gone_is_found() -> None:
    assert compare(["tables: a + true"], {"tables: a + true": "why", "tables: b - true": "why"}).missing == (
        "tables: b - true",
    )
