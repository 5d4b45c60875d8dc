"""`remit ledger`."""

import shlex
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from remit.cli.common.identity import is_agent_environment
from remit.cli.common.options import (
    counted,
    counting,
    json_option,
    open_output,
    output_option,
    required_output_option,
    shortened,
    show_json,
    show_table,
    terminal_width,
    workspace_option,
)
from remit.cli.goals.replay import replay
from remit.cli.goals.trace import trace
from remit.contracts.ledger import LedgerHead
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.core.text import printable
from remit.crypto.keyring import parse_public_pem
from remit.crypto.signing import Keyring
from remit.ledger.bundle import chain_ends, newest_head, verify_bundle, write_bundle
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.projections import rebuild as rebuild_projection
from remit.ledger.search import SearchFilter, correlations_beginning, count_entries, find_entries
from remit.parsing import read_bounded
from remit.services.base.entry_text import read_payload, render_meaning
from remit.services.base.run_list import MIN_SHORT_LENGTH, resolve_run_id
from remit.store.counted_entries import unstated
from remit.workspace.workspace import Workspace

MAX_KEY_FILE = 64 * 1024
MAX_CORRELATIONS = 4
MAX_SHOWN = 10_000
"""Correlations that are named if a part of an id is ambiguous."""
WIDE_TERMINAL = 110
"""Width of a terminal from which most correlations fit without being shortened."""

_VERDICT_WITHHELD = "The number of entries and the findings are shown to people only."

tenant_option = click.option(
    "--tenant", "tenant_id", default=DEFAULT_TENANT, show_default=True, help="The tenant of the chain."
)


@click.group()
def ledger() -> None:
    """Verify, show, trace, replay, rebuild and export the ledger."""


for _command in (trace, replay):
    ledger.add_command(_command)


@ledger.command()
@click.argument("bundle", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False)
@click.option(
    "--public-key",
    "public_key",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The audit public key (PEM) that verifies BUNDLE, for a machine without the workspace.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A signed head that you kept (`remit ledger head`). It proves whether entries were cut off. May be repeated.",
)
@click.option("--tenant", "tenant_id", help="Only the chain of this tenant (default: all chains).")
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
    """Verify the ledger of this workspace, or an evidence BUNDLE.

    Checks every hash, link and signature. Exit code 0 if everything is correct, 1 if there is a finding. An agent sees
    only whether the ledger is correct. It does not see the number of entries, because that depends on the content of
    files and rows.
    """
    if bundle is not None and tenant_id is not None:
        raise click.UsageError(
            "--tenant is for the ledger of the workspace only. A bundle holds the chain of one tenant."
        )
    if bundle is None and public_key is not None:
        raise click.UsageError("--public-key is for a BUNDLE only. The workspace is verified with its own keys.")
    known = tuple(_read_head(path) for path in heads)
    if bundle is None and is_agent_environment():
        ctx.exit(_verify_for_agent(directory, tenant_id, known, as_json=as_json))
    with counting("entries checked") as progress:
        if bundle is not None:
            keyring = _read_public_key(public_key) if public_key else _workspace_keyring(directory)
            with bundle.open("rb") as stream:
                verdict = verify_bundle(stream, keyring, source=str(bundle), known_heads=known, progress=progress)
        else:
            with Workspace.open(directory) as workspace:
                verdict = workspace.verify_ledger(tenant_id=tenant_id, known_heads=known, progress=progress)
            _require_tenant(tenant_id, verdict)
    if as_json:
        show_json(verdict.as_json())
    else:
        _show_verdict(verdict, of_bundle=bundle is not None)
    ctx.exit(0 if verdict.holds else 1)


@ledger.command()
@tenant_option
@click.option(
    "--correlation",
    "correlation_id",
    help="Only entries of this correlation, by its id or a part of it. For a proposal, also those of its envelope.",
)
@click.option("--task", "task_id", help="Only entries of this task.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_SHOWN),
    default=20,
    show_default=True,
    help="Show this many of the newest entries.",
)
@workspace_option
@json_option
def show(
    tenant_id: str, correlation_id: str | None, task_id: str | None, limit: int, directory: Path, as_json: bool
) -> None:
    """Show the newest entries, the oldest of them first.

    The correlation of an entry joins all entries of one request: the id of a task, of a plan's envelope, of a proposal
    or of a goal. For --correlation, a beginning of the id with 8 characters or more is enough if it is unique, and so
    is the short name of an envelope that `remit runs` shows.
    """
    with Workspace.open(directory) as workspace:
        correlations = _find_correlations(workspace, tenant_id, correlation_id) if correlation_id else [None]
        with workspace.store.reading() as connection:
            found = [
                entry
                for each in correlations
                for entry in find_entries(connection, tenant_id, SearchFilter(None, each, task_id), None, limit).entries
            ]
            waiting = [] if correlation_id or task_id else unstated(connection, tenant_id)
            total = sum(count_entries(connection, tenant_id, each, task_id) for each in correlations)
    for row in waiting:  # on standard error, because they are no entries
        about = f"{row.kind} for {row.operation} by {printable(row.actor or 'unknown')}"
        more = f"{row.counted - row.stated:,} more since {row.opened_at[:19]}Z"
        click.echo(f"{about}: {more}, in no entry yet", err=True)
    entries = sorted(found, key=lambda entry: entry.seq)[-limit:]
    if as_json:
        show_json([_as_document(entry) for entry in entries])
        return
    if not entries:
        click.echo(f"No entries of tenant {tenant_id!r} match.")
        return
    is_wide = terminal_width() >= WIDE_TERMINAL
    most, end_of_time = (24, len("2026-06-01 12:00:00")) if is_wide else (len("correlation"), len("2026-06-01 12:00"))
    rows = [
        (
            e.seq,
            _time(e)[:end_of_time],
            e.kind,
            shortened(e.actor or "", most),
            shortened(e.correlation_id, most),
            render_meaning(e),
        )
        for e in entries
    ]
    show_table(("seq", "time", "kind", "actor", "correlation", "meaning"), rows, prose=("meaning",))
    if len(correlations) > 1 and _is_uuid(correlations[1] or ""):
        click.echo(f"The proposal's envelope is {correlations[1]}. The entries of its run are shown too.")
    click.echo("`--json` shows the complete entries.")
    if (older := total - len(entries)) > 0:
        verb = "is" if older == 1 else "are"
        click.echo(
            f"{counted(older, 'older entry', 'older entries')} {verb} not shown. To show more: --limit"
            f" {min(total, MAX_SHOWN)}",
            err=True,
        )


def _find_correlations(workspace: Workspace, tenant_id: str, given: str) -> list[str]:
    """Return the correlation with this id or part of an id. For a proposal, also the envelope that was signed for it.

    If there is none or several, a line on standard error says so: the list is empty, as it always was.
    """
    name = given.rstrip("….")  # as the table shows it
    with workspace.store.reading() as connection:
        found = correlations_beginning(connection, tenant_id, name, MAX_CORRELATIONS)
        if given in found or name in found:
            exact = given if given in found else name
            # An earlier version named a refused request by the beginning of a proposal's id that the person gave.
            whole = [each for each in found if len(name) >= MIN_SHORT_LENGTH and _is_uuid(each) and not _is_uuid(exact)]
            if len(whole) == 1:
                return [*whole, *_find_envelope(workspace, tenant_id, whole[0]), exact]
            found = [exact]
        elif len(name) < MIN_SHORT_LENGTH:
            found = []
    if not found and tenant_id == DEFAULT_TENANT and (run := resolve_run_id(workspace, name)) != name:
        found = [run]
    if len(found) == 1:
        return found + _find_envelope(workspace, tenant_id, found[0])
    if found:
        click.echo(f"Several correlations begin with {printable(name)}: {', '.join(map(printable, found))}", err=True)
    elif len(name) < MIN_SHORT_LENGTH:
        click.echo(
            f"No correlation is {printable(given)}. Give the whole id, or at least {MIN_SHORT_LENGTH} characters of"
            " its beginning.",
            err=True,
        )
    else:
        click.echo(
            f"The chain of tenant {printable(tenant_id)} has no correlation {printable(given)}. Whole ids are in:"
            " remit ledger show --json",
            err=True,
        )
    return []


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _find_envelope(workspace: Workspace, tenant_id: str, proposal_id: str) -> list[str]:
    """Return the envelope of a proposal that was approved, by the entry of its approval."""
    wanted = SearchFilter("proposal.approved", proposal_id)
    with workspace.store.reading() as connection:
        approved = find_entries(connection, tenant_id, wanted, None, 1).entries
    payload = read_payload(approved[0]) if approved else None
    envelope = payload.get("envelope_id") if isinstance(payload, dict) else None
    return [envelope] if isinstance(envelope, str) else []


@ledger.command()
@workspace_option
@json_option
def rebuild(directory: Path, as_json: bool) -> None:
    """Rebuild the table agent_execution_current from the ledger.

    Prints the rows that had drifted from the ledger.
    """
    with Workspace.open(directory) as workspace:
        done = rebuild_projection(workspace.ledger)
    if as_json:
        show_json({"rows": done.rows, "drift": list(done.drift)})
        return
    click.echo(f"Rebuilt {counted(done.rows, 'row')}; {len(done.drift) or 'none'} had drifted.")
    for what in done.drift:
        click.echo(f"  {printable(what)}")


@ledger.command()
@tenant_option
@required_output_option
@click.option(
    "--correlation",
    "correlation_id",
    help="Include the payloads of this correlation only. Of all other entries since its first one, the bundle has the"
    " id, the kind, the time and the digest of the payload.",
)
@workspace_option
@json_option
def export(tenant_id: str, output: Path | None, correlation_id: str | None, directory: Path, as_json: bool) -> None:
    """Write an evidence bundle: the chain of a tenant, or a part of it.

    The audit public key verifies the bundle (`remit keys export audit`). No workspace is necessary for that.
    """
    if output is None and as_json:
        raise click.UsageError("-o - and --json both write to standard output. Give a file with -o.")
    with open_output(output) as out, Workspace.open(directory) as workspace:
        written = write_bundle(workspace.store, out, tenant_id, workspace.clock, correlation_id=correlation_id)
        with workspace.store.reading() as connection:
            others = {tenant: seq for tenant, seq in chain_ends(connection).items() if tenant != tenant_id}
    if as_json:
        summary = {"entries": written.entries, "disclosed": written.disclosed, "head": written.head.tree()}
        summary["not_in_it"] = others
        show_json({"file": str(output), **summary})
        return
    entries = counted(written.entries, "entry", "entries")
    shown = "all" if written.disclosed == written.entries else f"{written.disclosed:,}"
    destination = printable(str(output)) if output else "standard output"
    click.echo(f"Wrote {entries}, {shown} with payload, to {destination}", err=output is None)
    if others:
        named = ", ".join(f"{printable(tenant)} ({seq:,})" for tenant, seq in sorted(others.items()))
        again = f"--tenant {shlex.quote(printable(min(others)))}"
        click.echo(
            f"This is the chain of {printable(tenant_id)} only. Other tenants have entries too: {named}; {again}",
            err=True,
        )
    if output is not None:
        click.echo(f"Next: remit keys export audit -o audit.pem, then: {_verify_command(output)}")


@ledger.command()
@tenant_option
@output_option
@workspace_option
@json_option
def head(tenant_id: str, output: Path | None, directory: Path, as_json: bool) -> None:
    """Print the newest signed head.

    Keep it on another machine. Later it proves whether entries were cut off or rewritten.
    """
    with open_output(output) as out:
        with Workspace.open(directory) as workspace, workspace.store.reading() as connection:
            found = newest_head(connection, tenant_id)
        if output is not None:
            out.write(found.canonical() + b"\n")
    if output is None or as_json:
        show_json(found.tree())
    else:
        click.echo(f"Head of {counted(found.seq, 'entry', 'entries')} written to {output}")


def _verify_for_agent(directory: Path, tenant_id: str | None, heads: tuple[LedgerHead, ...], *, as_json: bool) -> int:
    """Print only whether the ledger is correct.

    The number of entries depends on files and rows that an agent may not read.
    """
    with Workspace.open(directory) as workspace:
        verdict = workspace.verify_ledger(tenant_id=tenant_id, known_heads=heads)
    _require_tenant(tenant_id, verdict)
    if as_json:
        show_json({"holds": verdict.holds, "withheld": _VERDICT_WITHHELD})
    else:
        click.echo("holds" if verdict.holds else "does not hold")
        click.echo(f"note: {_VERDICT_WITHHELD}")
    return 0 if verdict.holds else 1


def _read_head(path: Path) -> LedgerHead:
    with path.open("rb") as stream:
        return LedgerHead.parse(read_bounded(stream, LedgerHead.bounds, source=str(path)), source=str(path))


def _read_public_key(public_key: Path) -> Keyring:
    with public_key.open("rb") as stream:
        return parse_public_pem(stream.read(MAX_KEY_FILE), "audit", source=str(public_key))


def _workspace_keyring(directory: Path) -> Keyring:
    try:
        with Workspace.open(directory) as workspace:
            return workspace.keyring
    except RefusedError as problem:
        raise RefusedError(
            Reason.KEY_UNKNOWN,
            "the bundle cannot be verified: there is no workspace here, and no public key was given",
            where=problem.where,
            next_step="Give the audit public key that you trust: --public-key audit.pem",
        ) from None


def _as_document(entry: Entry) -> dict[str, Any]:
    names = COLUMNS.split(", ")
    document = {name.strip(): getattr(entry, name.strip()) for name in names}
    document["payload"] = read_payload(entry)
    return document


def _time(entry: Entry) -> str:
    return entry.created_at[:19].replace("T", " ")


def _verify_command(bundle: Path) -> str:
    return f"remit ledger verify {shlex.quote(str(bundle))} --public-key audit.pem"


def _require_tenant(tenant_id: str | None, verdict: VerificationReport) -> None:
    """Refuse a tenant without entries, so that a mistyped name does not look like a correct chain.

    If a signed head names the tenant, the verdict already has the finding `truncated`.
    """
    if tenant_id is not None and verdict.holds and not verdict.entries:
        raise RefusedError(
            Reason.STATE_MISSING,
            f"tenant {tenant_id!r} has no entries",
            next_step="Check the name. Without --tenant, every chain is verified.",
        )


def _show_verdict(verdict: VerificationReport, *, of_bundle: bool) -> None:
    parts = (
        counted(verdict.entries, "entry", "entries"),
        counted(verdict.heads, "signed head"),
        counted(verdict.tenants, "tenant"),
    )
    if verdict.holds:
        click.echo(f"{click.style('holds', fg='green', bold=True)}: {', '.join(parts)}")
        _note_no_anchor(verdict, of_bundle=of_bundle)
        return
    click.echo(f"{click.style('does not hold', fg='red', bold=True)}: {', '.join(parts)}")
    show_table(
        ("fault", "tenant", "seq", "what"),
        [(f.fault, f.tenant_id, f.seq if f.seq is not None else "", f.what) for f in verdict.findings],
        prose=("what",),
    )
    if verdict.suppressed:
        click.echo(f"... and {counted(verdict.suppressed, 'more finding')}")
    click.echo(f"Next: {_after_failure(verdict, of_bundle=of_bundle)}")


def _note_no_anchor(verdict: VerificationReport, *, of_bundle: bool) -> None:
    missing = verdict.tenants - verdict.anchored
    if missing <= 0:
        return
    if of_bundle:
        click.echo("note: without --head, entries that are missing at the end of this bundle cannot be detected")
    elif verdict.anchored:
        some = f"{missing:,} of {counted(verdict.tenants, 'tenant')}"
        click.echo(f"note: no anchor for {some}: missing entries at the end of these chains cannot be detected")
    else:
        click.echo("note: no anchor: missing entries at the end of a chain cannot be detected")


def _after_failure(verdict: VerificationReport, *, of_bundle: bool) -> str:
    if not of_bundle:
        return (
            "keep a copy of the database as it is, then compare it with your last backup and your last exported head."
        )
    if {finding.fault for finding in verdict.findings} == {RecordFault.HEAD_UNKNOWN_KEY}:
        return "get the key from the workspace (remit keys export audit), not from the sender of the bundle."
    return "do not rely on this file. Ask for a new export, and compare both files with a head that you kept."
