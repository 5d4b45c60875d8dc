"""`remit schema`. Reads the schema files of the package and loads no model."""

import click

from remit.cli.common.options import json_option, show_json, show_table
from remit.contracts.registry import CONTRACTS, load_schema
from remit.core.errors import Reason, RefusedError


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in CONTRACTS if name.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def schema(name: str | None, as_json: bool) -> None:
    """List the contracts, or print the JSON Schema of one.

    With NAME, it prints the schema of that contract as one JSON document, with or without --json. A schema describes
    the form of a document. Remit also checks what a schema cannot describe, such as one field against another.
    """
    if name is None:
        _show_list(as_json=as_json)
        return
    if name not in CONTRACTS:
        raise RefusedError(
            Reason.MALFORMED, f"there is no contract named {name!r}", next_step="List the contracts: remit schema"
        )
    show_json(load_schema(name))


def _show_list(*, as_json: bool) -> None:
    described = [(name, _first_sentence(load_schema(name)["description"])) for name in CONTRACTS]
    if as_json:
        show_json([{"name": name, "description": description} for name, description in described])
        return
    show_table(("contract", "description"), described, prose=("description",))
    click.echo("To print one: remit schema task-manifest")


def _first_sentence(description: str) -> str:
    """Return the first sentence. A dot inside `remit.yaml` does not end a sentence."""
    text = " ".join(description.split())
    return text.partition(". ")[0].rstrip(".") + "."
