"""The generated reference pages say what the code says."""

import click
import pytest

from remit.errors import Reason
from scripts.generate_reference import door_codes, find_command, render_cli, render_errors


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
    """A group below."""


@inner.command()
def leaf() -> None:
    """At the end of the branch."""


def test_every_visible_command_has_a_section_with_its_help() -> None:
    page = render_cli(sample)
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## remit", "## remit grow", "## remit inner", "## remit inner leaf"]
    assert "--count TEXT  How many." in page
    assert "-h, --help" in page
    assert "At the end of the branch." in page
    assert "Not for readers." not in page


def test_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = render_cli(sample)
    monkeypatch.setenv("COLUMNS", "30")
    assert render_cli(sample) == wide


def test_every_reason_and_every_door_is_on_the_error_page() -> None:
    page = render_errors()
    assert [reason for reason in Reason if f"| `{reason.value}` |" not in page] == []
    assert door_codes()
    assert [door for door in door_codes() if f"{door} code" not in page] == []


def test_a_module_without_a_command_group_is_reported() -> None:
    with pytest.raises(LookupError, match="holds no click group"):
        find_command("remit.errors")
