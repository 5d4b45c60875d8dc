"""`remit schema`. Reads the shipped files; no model is loaded."""

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

    With NAME its schema, one JSON document with or without --json. A document that fits its schema is well-formed;
    Remit still checks what a schema cannot say, such as one field against another.
    """
    if name is None:
        _show_list(as_json=as_json)
        return
    if name not in CONTRACTS:
        raise RefusedError(
            Reason.MALFORMED, f"there is no contract named {name!r}", next_step="See what there is: remit schema"
        )
    show_json(load_schema(name))


def _show_list(*, as_json: bool) -> None:
    described = [(name, _first_sentence(load_schema(name)["description"])) for name in CONTRACTS]
    if as_json:
        show_json([{"name": name, "description": description} for name, description in described])
        return
    show_table(("contract", "what it is"), described, prose=("what it is",))
    click.echo("One of them: remit schema task-manifest")


def _first_sentence(description: str) -> str:
    """Up to the first full stop that ends a sentence: a dot inside `remit.yaml` does not."""
    text = " ".join(description.split())
    return text.partition(". ")[0].rstrip(".") + "."
