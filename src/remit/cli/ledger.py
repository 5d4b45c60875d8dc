"""`remit ledger`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from remit.authority.keys import parse_public_pem
from remit.authority.signing import Keyring
from remit.cli.shown import counting, json_option, output_option, show_json, show_table, workspace_option
from remit.contracts.ledger import LedgerHead
from remit.doors.task import DEFAULT_TENANT
from remit.errors import Reason, Refused
from remit.ledger.bundle import newest_head, verify_bundle, write_bundle
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.findings import Verdict
from remit.ledger.projections import rebuild as rebuild_projection
from remit.untrusted import read_bounded
from remit.workspace import Workspace

MAX_KEY_FILE = 64 * 1024

tenant_option = click.option("--tenant", "tenant_id", default=DEFAULT_TENANT, show_default=True, help="Whose chain.")


@click.group()
def ledger() -> None:
    """Verify, show, rebuild and export the record."""


@ledger.command()
@click.argument("bundle", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option(
    "--public-key",
    "public_key",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The audit public key (PEM) to check BUNDLE with, on a machine without the workspace.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A signed head kept elsewhere (`remit ledger head`): proves what was cut off since. May be repeated.",
)
@click.option("--tenant", "tenant_id", help="Only this tenant's chain (default: all).")
@workspace_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    bundle: Path | None,
    public_key: Path | None,
    heads: tuple[Path, ...],
    tenant_id: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Check every hash, link and signature: of this workspace, or of an evidence BUNDLE.

    Exit code 0 when all of it holds, 1 when something was found.
    """
    known = tuple(_read_head(path) for path in heads)
    with counting("entries checked") as progress:
        if bundle is not None:
            keyring = _pinned(public_key) if public_key else _workspace_keyring(directory)
            with bundle.open("rb") as stream:
                verdict = verify_bundle(stream, keyring, source=str(bundle), known_heads=known, progress=progress)
        else:
            with Workspace.open(directory) as workspace:
                verdict = workspace.verify_ledger(tenant_id=tenant_id, known_heads=known, progress=progress)
    if as_json:
        show_json(verdict.as_json())
    else:
        _show_verdict(verdict)
    ctx.exit(0 if verdict.holds else 1)


@ledger.command()
@tenant_option
@click.option("--correlation", "correlation_id", help="Only entries of this correlation.")
@click.option("--task", "task_id", help="Only entries of this task.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The newest so many.")
@workspace_option
@json_option
def show(
    tenant_id: str, correlation_id: str | None, task_id: str | None, limit: int, directory: Path, as_json: bool
) -> None:
    """The newest entries, oldest first."""
    with Workspace.open(directory) as workspace:
        entries = list(_newest(workspace, tenant_id, correlation_id, task_id, limit))
    if as_json:
        show_json([_as_document(entry) for entry in entries])
        return
    if not entries:
        click.echo(f"No entries of tenant {tenant_id!r} match.")
        return
    rows = [(e.seq, e.created_at[:19] + "Z", e.kind, _short(e.correlation_id), e.payload[:500]) for e in entries]
    show_table(("seq", "time", "kind", "correlation", "payload"), rows, cut="payload")
    click.echo("`--json` shows them whole.")


@ledger.command()
@workspace_option
@json_option
def rebuild(directory: Path, as_json: bool) -> None:
    """Derive agent_execution_current from the ledger again, and say what had drifted."""
    with Workspace.open(directory) as workspace:
        done = rebuild_projection(workspace.ledger)
    if as_json:
        show_json({"rows": done.rows, "drift": list(done.drift)})
        return
    click.echo(f"Rebuilt {done.rows} {'row' if done.rows == 1 else 'rows'}; {len(done.drift) or 'none'} had drifted.")
    for what in done.drift:
        click.echo(f"  {what}")


@ledger.command()
@tenant_option
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file.")
@click.option("--correlation", "correlation_id", help="Disclose only this correlation; others appear as digests.")
@workspace_option
@json_option
def export(tenant_id: str, output: Path, correlation_id: str | None, directory: Path, as_json: bool) -> None:
    """Write an evidence bundle that anybody with the audit public key can check."""
    with Workspace.open(directory) as workspace, output.open("wb") as out:
        trailer = write_bundle(workspace.store, out, tenant_id, workspace.clock, correlation_id=correlation_id)
    if as_json:
        show_json({"file": str(output), "entries": trailer.entries, "head": trailer.head.tree()})
        return
    click.echo(f"Wrote {trailer.entries} entries to {output}")
    click.echo(f"Next: remit keys export audit -o audit.pem, then: remit ledger verify {output} --public-key audit.pem")


@ledger.command()
@tenant_option
@output_option
@workspace_option
@json_option
def head(tenant_id: str, output: Path | None, directory: Path, as_json: bool) -> None:
    """The newest signed head. Kept somewhere else, it proves later that nothing was cut off or rewritten."""
    with Workspace.open(directory) as workspace, workspace.store.reading() as connection:
        found = newest_head(connection, tenant_id)
    if output is not None:
        output.write_bytes(found.canonical() + b"\n")
    if output is None or as_json:
        show_json(found.tree())
    else:
        click.echo(f"Head of {found.seq} entries written to {output}")


def _read_head(path: Path) -> LedgerHead:
    with path.open("rb") as stream:
        return LedgerHead.parse(read_bounded(stream, LedgerHead.bounds, source=str(path)), source=str(path))


def _pinned(public_key: Path) -> Keyring:
    with public_key.open("rb") as stream:
        return parse_public_pem(stream.read(MAX_KEY_FILE), "audit", source=str(public_key))


def _workspace_keyring(directory: Path) -> Keyring:
    try:
        with Workspace.open(directory) as workspace:
            return workspace.keyring
    except Refused as problem:
        raise Refused(
            Reason.KEY_UNKNOWN,
            "a bundle cannot vouch for itself: no workspace is here, and no public key was given",
            where=problem.where,
            next_step="Give the key you trust: --public-key audit.pem",
        ) from None


def _newest(
    workspace: Workspace, tenant_id: str, correlation_id: str | None, task_id: str | None, limit: int
) -> Iterator[Entry]:
    where, parameters = ["tenant_id = ?"], [tenant_id]
    for column, wanted in (("correlation_id", correlation_id), ("task_id", task_id)):
        if wanted is not None:
            where.append(f"{column} = ?")
            parameters.append(wanted)
    query = f"SELECT {COLUMNS} FROM ledger_entries WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT {limit}"  # noqa: S608
    with workspace.store.reading() as connection:
        rows = list(connection.rows(query, parameters))
    for row in reversed(rows):
        yield Entry(*row)


def _as_document(entry: Entry) -> dict[str, Any]:
    names = COLUMNS.split(", ")
    document = {name.strip(): getattr(entry, name.strip()) for name in names}
    document["payload"] = json.loads(entry.payload)
    return document


def _short(text: str) -> str:
    most = 24
    return text if len(text) <= most else text[: most - 1] + "…"


def _show_verdict(verdict: Verdict) -> None:
    counted = f"{verdict.entries:,} entries, {verdict.heads:,} signed heads, {verdict.tenants} tenants"
    if verdict.holds:
        click.echo(f"{click.style('holds', fg='green', bold=True)}: {counted}")
        return
    click.echo(f"{click.style('does not hold', fg='red', bold=True)}: {counted}")
    show_table(
        ("fault", "tenant", "seq", "what"),
        [(f.fault, f.tenant_id, f.seq if f.seq is not None else "", f.what) for f in verdict.findings],
    )
    if verdict.suppressed:
        click.echo(f"... and {verdict.suppressed:,} more findings")
    click.echo("Next: keep a copy of the database as it is, then compare it with your last backup and exported head.")
