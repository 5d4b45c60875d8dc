"""`remit clock`."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.terminal import NoTerminalError, confirm, discard_pending_input
from remit.core.errors import Reason, RefusedError
from remit.core.ids import CLOCK_TOLERANCE, render_time
from remit.core.text import printable
from remit.identity.person import person_at_terminal
from remit.ledger.clock import ACCEPT, ACCEPTED, FOUND_WORDS, SET_CLOCK, ClockEntry, clock_entries, render_span
from remit.ledger.clock_acceptance import ChainClock, chain_clocks
from remit.store.tokens import TokenRow
from remit.workspace.workspace import Workspace


@click.group()
def clock() -> None:
    """Compare the clock with the ledger, and accept it after it was ahead.

    The time of an entry is never earlier than the time of the entry before it. So an entry that was written while the
    clock was ahead keeps its time in the future. From then on, everything that is valid by the clock is refused as
    expired, until a person accepts the clock.
    """


@clock.command()
@workspace_option
@json_option
@click.pass_context
def show(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Compare the clock with the newest entry of each chain.

    Also lists the jumps of the clock that were noticed or accepted. Exit code 1 if the clock is behind a chain, or if a
    person has not accepted a jump ahead yet.
    """
    with Workspace.open(directory) as workspace:
        now = workspace.clock()
        with workspace.store.reading() as connection:
            chains = list(chain_clocks(connection, now))
            recorded = [
                (chain.tenant_id, entry) for chain in chains for entry in clock_entries(connection, chain.tenant_id)
            ]
    waiting = [chain for chain in chains if chain.can_be_accepted]
    if as_json:
        show_json(
            {
                "clock_at": render_time(now),
                "chains": [_chain_json(chain) for chain in chains],
                "noticed": [_entry_json(tenant, entry) for tenant, entry in recorded],
            }
        )
    else:
        click.echo(f"The clock shows {_second(now)}.")
        show_table(
            ("tenant", "newest entry", "the clock is"),
            [(printable(chain.tenant_id), _second(chain.newest), _describe_chain(chain)) for chain in chains],
        )
        for tenant, entry in recorded:
            click.echo(f"{printable(tenant)}, entry {entry.seq}: {_describe_entry(entry)}")
        if waiting:
            click.echo(f"Next: if the clock is right, accept it: {ACCEPT}. If it is wrong, set it: {SET_CLOCK}")
    ctx.exit(1 if waiting else 0)


@clock.command()
@click.option("--as", "name", metavar="NAME", help="Your name for the ledger, beside the name of your account.")
@click.option("--yes", is_flag=True, help="Accept the clock without asking. Necessary without a terminal.")
@workspace_option
@json_option
def accept(name: str | None, yes: bool, directory: Path, as_json: bool) -> None:
    """Accept that the clock is right. For a person only.

    New entries continue from the time that the clock shows now. Every chain that is ahead of the clock gets an entry
    with your account. Everything that is recorded as expired, refused, revoked or closed stays so. For everything else,
    the clock decides again whether it has expired.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        now = workspace.clock()
        with workspace.store.reading() as connection:
            chains = [chain for chain in chain_clocks(connection, now) if chain.can_be_accepted]
        tokens = workspace.tokens.listed()
        later = [row.jti for row in tokens if not row.revoked_at and row.issued_at > render_time(now + CLOCK_TOLERANCE)]
        if chains and not yes:
            again = [row for row in tokens if _is_valid_again(row, now, chains)]
            _ask(now, chains, again, as_json=as_json)
        entries = workspace.accept_clock(who, shown=now) if chains else []
    if as_json:
        accepted = [{"tenant_id": one.tenant_id, "seq": one.seq, "accepted_at": one.created_at} for one in entries]
        show_json({"accepted": accepted, "clock_at": render_time(now), "tokens_dated_later": later})
    elif not entries:
        click.echo(f"The clock shows {_second(now)}. No chain is ahead of it, so there is nothing to accept.")
    else:
        for entry in entries:
            click.echo(f"{printable(entry.tenant_id)}: continues from {entry.created_at[:19]}Z (entry {entry.seq})")
        if later:
            some = ", ".join(later[:4]) + (" and more: remit token list" if len(later) > 4 else "")
            click.echo(
                f"{counted(len(later), 'token')} issued while the clock was ahead: {some}. They become valid again at"
                f" their time of issue. Revoke them and issue new ones: remit token revoke {later[0]}"
            )
        click.echo("Next: remit doctor")


def _ask(now: datetime, chains: Sequence[ChainClock], again: Sequence[TokenRow], *, as_json: bool) -> None:
    """Show what is accepted, and ask the person to confirm it. Any other answer ends the command."""
    if as_json or not sys.stdin.isatty():
        raise NoTerminalError(
            Reason.APPROVAL_PENDING,
            f"a person must confirm that the clock is right (it shows {_second(now)}), and there is no terminal;"
            " nothing was accepted",
            where="the clock",
            next_step=f"Run it in a terminal, or without a question: {ACCEPT} --yes",
        )
    click.echo(f"The clock shows {_second(now)}.", err=True)
    for chain in chains:
        click.echo(
            f"  {printable(chain.tenant_id)}: newest entry {_second(chain.newest)}, {_describe_chain(chain)}", err=True
        )
    if again:
        some = ", ".join(row.jti for row in again[:4])
        click.echo(
            f"  {counted(len(again), 'token')} valid again by this clock: {some}. Revoke those that you do not trust.",
            err=True,
        )
    try:
        discard_pending_input()
        is_right = confirm("Is the clock right?", err=True)
    except click.Abort:
        is_right = False
    if not is_right:
        raise RefusedError(
            Reason.CANCELLED, "the clock was not accepted", where="the clock", next_step=f"Set it: {SET_CLOCK}"
        )


def _is_valid_again(row: TokenRow, now: datetime, chains: Sequence[ChainClock]) -> bool:
    """Tell whether a token has expired by the time of the ledger, and is valid by this clock."""
    newest = max(chain.newest for chain in chains)
    return not row.revoked_at and row.not_before <= render_time(now) < row.expires_at <= render_time(newest)


def _describe_chain(chain: ChainClock) -> str:
    if chain.behind:
        return f"{render_span(chain.behind)} behind"
    return "set ahead, not accepted yet" if chain.can_be_accepted else "not behind"


def _describe_entry(entry: ClockEntry) -> str:
    if entry.kind == ACCEPTED:
        accepted, newest = _to_seconds(entry.payload["accepted_at"]), _to_seconds(entry.payload["newest_at"])
        return f"{entry.payload['person']} accepted {accepted}, after {newest}"
    found = FOUND_WORDS.get(str(entry.payload["found"]), str(entry.payload["found"]))
    shown, expected = _to_seconds(entry.payload["clock_at"]), _to_seconds(entry.payload["expected_at"])
    return f"the clock {found}: it showed {shown}, not {expected}"


def _chain_json(chain: ChainClock) -> dict[str, Any]:
    return {
        "tenant_id": chain.tenant_id,
        "newest_at": render_time(chain.newest),
        "behind_seconds": int(chain.behind.total_seconds()),
        "can_be_accepted": chain.can_be_accepted,
    }


def _entry_json(tenant_id: str, entry: ClockEntry) -> dict[str, Any]:
    return {"tenant_id": tenant_id, "seq": entry.seq, "kind": entry.kind, "actor": entry.actor, **entry.payload}


def _second(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _to_seconds(at: object) -> str:
    return f"{str(at)[:19]}Z"
