"""The pipelines that remit.yaml registers: looked at by name, never run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from remit.diagnostics.check import Check
from tests.diagnostics.sound_workspace import SoundWorkspace

pytestmark = pytest.mark.req("PX-21")


@pytest.fixture
def check_config(sound_workspace: SoundWorkspace) -> Callable[..., Check]:
    def with_pipeline(**pipeline: Any) -> Check:
        settings = {
            "version": 1,
            "connections": {
                "shop": {"type": "duckdb", "path": "shop.duckdb"},
                "closed": {"type": "duckdb", "path": "shop.duckdb", "read_only": True},
            },
            "pipeline_packages": ["etl"],
            "pipelines": {"own": pipeline},
        }
        (sound_workspace.root / "remit.yaml").write_text(json.dumps(settings))
        return sound_workspace.run_checks()["pipeline own"]

    (sound_workspace.root / "etl").mkdir()
    (sound_workspace.root / "etl/run.py").write_text("raise SystemExit('it was run')\n")
    (sound_workspace.root / "one.sql").write_text("SELECT 1;\n")
    return with_pipeline


def test_what_could_run_is_fine_and_is_not_run(check_config: Callable[..., Check]) -> None:
    assert check_config(type="python", steps=["etl.run:run"], writes=["out.txt"]).found == "python, 1 step"
    found = check_config(type="sql", connection="shop", steps=["one.sql"])
    assert (found.status, found.found) == ("ok", "sql, 1 step")


@pytest.mark.parametrize(
    "pipeline, status, words",
    [
        ({"type": "python", "steps": ["os:remove"], "writes": ["x"]}, "fail", "not in a package"),
        ({"type": "python", "steps": ["etl.run:run"], "writes": ["x"], "reads": ["no/such"]}, "warn", "no/such"),
        ({"type": "python", "steps": ["etl.run:run", "etl.no:run"], "writes": ["x"]}, "warn", "etl.no: no such module"),
        ({"type": "sql", "connection": "nobody", "steps": ["one.sql"]}, "fail", "no connection"),
        ({"type": "sql", "connection": "closed", "steps": ["one.sql"]}, "fail", "read_only"),
        ({"type": "sql", "connection": "shop", "steps": ["one.sql", "two.sql"]}, "warn", "two.sql"),
        ({"type": "sql", "connection": "shop", "steps": ["../one.sql"]}, "fail", ".."),
    ],
)
def test_a_pipeline_that_could_not_run_is_reported(
    check_config: Callable[..., Check], pipeline: dict[str, Any], status: str, words: str
) -> None:
    found = check_config(**pipeline)
    assert (found.status, words in found.found, found.next_step != "") == (status, True, True)


def test_a_missing_dbt_is_reported(check_config: Callable[..., Check]) -> None:
    found = check_config(type="dbt", project="etl", connection="shop")
    assert found.status == "warn"
    assert "remit[dbt]" in found.next_step
