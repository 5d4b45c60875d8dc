"""The generated reference pages say what the code says."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
from pydantic import BaseModel

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import ActionType
from remit.contracts.registry import CONTRACTS
from remit.core.errors import MEANING, NEXT_STEPS, Reason
from scripts.generate_reference import (
    BEGIN,
    END,
    PAGES,
    ROOT,
    capability_codes,
    find_command,
    outdated,
    render_cli,
    render_contracts,
    render_errors,
    render_settings,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def sample() -> None:
    """A sample program."""


@sample.command()
@click.option("--count", help="How many.")
def grow(count: str) -> None:
    """Make it larger."""


@sample.command(hidden=True)
def secret() -> None:
    """Not for readers."""


@sample.group()
def inner() -> None:
    """A nested group."""


@inner.command()
def leaf() -> None:
    """Do one thing in the group."""


def test_every_visible_command_has_a_section_with_its_help() -> None:
    page = render_cli(sample)
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## remit", "## remit grow", "## remit inner", "## remit inner leaf"]
    assert "--count TEXT  How many." in page
    assert "-h, --help" in page
    assert "Do one thing in the group." in page
    assert "Not for readers." not in page


def test_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = render_cli(sample)
    monkeypatch.setenv("COLUMNS", "30")
    assert render_cli(sample) == wide


def test_every_reason_and_every_operation_is_on_the_error_page() -> None:
    page = render_errors()
    assert [reason for reason in Reason if f"| `{reason.value}` |" not in page] == []
    assert capability_codes()
    assert [kind for kind in capability_codes() if f"{kind} code" not in page] == []


def test_a_module_without_a_command_group_is_reported() -> None:
    with pytest.raises(LookupError, match="has no click group"):
        find_command("remit.core.errors")


def test_every_reason_is_explained() -> None:
    assert MEANING.keys() == set(Reason)
    page = render_errors()
    assert [reason for reason, meaning in MEANING.items() if not meaning or meaning not in page] == []


def test_every_reason_has_a_next_step() -> None:
    assert NEXT_STEPS.keys() == set(Reason)
    page = render_errors()
    assert [reason for reason, step in NEXT_STEPS.items() if not step or f"| {step} |" not in page] == []


def test_every_field_of_the_task_contracts_is_on_the_contract_page_with_its_type() -> None:
    page = render_contracts()
    assert [name for name in CONTRACTS if f"\n## {name}\n" not in page] == []
    assert "| `constraints.reversible` | yes | boolean |" in page
    assert "| `expires_at` | yes | time |" in page
    assert "| `error` | yes | ExecutionError or null |" in page
    assert "| `rollback_manifest_id` | yes | UUID or null |" in page


def _setting_names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.default, BaseModel):
            yield from _setting_names(type(field.default), f"{prefix}{name}.")


def test_every_setting_is_on_the_settings_page_with_default_limits_and_meaning() -> None:
    page = render_settings(f"before\n{BEGIN}\nold rows\n{END}\nafter\n")
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "old rows" not in page
    assert [name for name in _setting_names(SystemConfig) if f"| `{name}` |" not in page] == []
    assert "| `limits.max_files` | integer, 1 to 100 | 100 | Files that one plan may change. |" in page
    assert "52428800 (50 MiB)" in page
    assert "| `connections.NAME.type` | `duckdb` or `postgresql` | required |" in page


def test_a_settings_page_without_its_markers_is_not_overwritten() -> None:
    with pytest.raises(LookupError, match="does not have the markers"):
        render_settings("# Settings\n")


def test_edited_and_missing_pages_are_outdated_and_fresh_ones_are_not(tmp_path: Path) -> None:
    for name, render in PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(render((ROOT / name).read_text(encoding="utf-8")), encoding="utf-8")
    assert outdated(tmp_path) == []
    edited = tmp_path / "docs/reference/settings.md"
    edited.write_text(edited.read_text(encoding="utf-8").replace("| `root` |", "| `route` |"), encoding="utf-8")
    (tmp_path / "docs/reference/cli.md").unlink()
    assert outdated(tmp_path) == ["docs/reference/cli.md", "docs/reference/settings.md"]


def test_every_field_of_every_action_is_on_the_page_of_contracts() -> None:
    page = render_contracts()
    plan = page.partition("\n## plan\n")[2].partition("\n## ")[0]
    for kind in get_args(ActionType):
        section = plan.partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
        assert "| `depends_on` | no | list of string | none |" in section, kind
    assert "| `json_update_value` | `value` | yes | any value |  |" in plan
    assert "| `sql_execute` | `connection` | no | string | `duckdb` |" in plan
    assert "| `json_path` | `expression` | yes | string |  |" in plan
    assert "`depends_on`" in NEXT_STEPS[Reason.DEPENDENCY_INVALID]
