"""`remit keys`."""

from pathlib import Path
from typing import get_args

import click

from remit.cli.common.options import json_option, open_output, output_option, show_json, show_table, workspace_option
from remit.core.errors import Reason, RefusedError
from remit.crypto.keyring import render_public_pem
from remit.crypto.signing import PublicKey, Role
from remit.identity.person import person_at_terminal
from remit.workspace.workspace import Workspace

ROLE = click.Choice(get_args(Role))


@click.group()
def keys() -> None:
    """List, export, rotate and revoke keys.

    Each role signs one kind of document. The kernel signs leases, the protocol envelopes, the executor results, and
    audit the heads of the ledger. The policy key signs capability tokens and has its own commands:
    `remit token keys` and `remit token rotate-key`.
    """


@keys.command("list")
@workspace_option
@json_option
def list_keys(directory: Path, as_json: bool) -> None:
    """List every public key that this workspace ever used."""
    with Workspace.open(directory) as workspace:
        found = list(workspace.keyring)
    if as_json:
        show_json([{"role": k.role, "key_id": k.key_id, "state": _state(k), "created_at": k.created_at} for k in found])
        return
    rows = [(key.role, key.key_id, _state(key), key.created_at[:19] + "Z") for key in found]
    show_table(("role", "key id", "state", "since"), rows)


@keys.command()
@click.argument("role", type=ROLE)
@output_option
@workspace_option
@json_option
def export(role: Role, output: Path | None, directory: Path, as_json: bool) -> None:
    """Print the public keys of a role in PEM.

    An auditor verifies an evidence bundle with the key of the role audit. The output is not secret.
    """
    with Workspace.open(directory) as workspace:
        found = [key for key in workspace.keyring if key.role == role and not key.revoked_at]
    if not found:
        raise RefusedError(Reason.STATE_MISSING, f"there is no {role} key", next_step="List the keys: remit keys list")
    text = "".join(render_public_pem(key) for key in found)
    if output is not None:
        with open_output(output) as out:
            out.write(text.encode())
    if as_json:
        show_json({"role": role, "keys": [key.key_id for key in found], "pem": text})
    elif output is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"Wrote {len(found)} public {'key' if len(found) == 1 else 'keys'} to {output}")


@keys.command()
@click.argument("role", type=ROLE)
@click.option(
    "--revoke",
    is_flag=True,
    help="Also revoke the old key, because it may have leaked. Everything that it ever signed becomes invalid.",
)
@workspace_option
@json_option
def rotate(role: Role, revoke: bool, directory: Path, as_json: bool) -> None:
    """Make a new key for a role, and retire the old one.

    The old key still verifies what it signed before. Its private half is destroyed.
    """
    with Workspace.open(directory) as workspace:
        old, new = workspace.rotate_key(role, revoke=revoke, actor=person_at_terminal(workspace.environ).id)
    if as_json:
        show_json({"role": role, "old_key_id": old.key_id, "new_key_id": new.key_id, "old_state": _state(old)})
        return
    click.echo(f"{role}: {old.key_id} is {_state(old)}, {new.key_id} signs from now on")
    if role == "audit":
        click.echo("Next: give auditors the new public key: remit keys export audit")


@keys.command()
@click.argument("key_id")
@workspace_option
@json_option
def revoke(key_id: str, directory: Path, as_json: bool) -> None:
    """Revoke a retired key that may have leaked.

    Everything that it ever signed becomes invalid. For an active key: remit keys rotate ROLE --revoke.
    """
    with Workspace.open(directory) as workspace:
        found = workspace.revoke_key(key_id, actor=person_at_terminal(workspace.environ).id)
    if as_json:
        show_json({"role": found.role, "key_id": found.key_id, "state": _state(found)})
    else:
        click.echo(f"{found.role}: {found.key_id} is {_state(found)}")


def _state(key: PublicKey) -> str:
    if key.revoked_at:
        return f"revoked {key.revoked_at[:19]}Z"
    return f"retired {key.retired_at[:19]}Z" if key.retired_at else "active"
