"""Proposed plans among the questions for people, at the command line.

What a person is shown is the plan's own preview, made on the files as they are now: an agent words none of it but the
note, and that is told as such.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from remit.approval.people import Person
from remit.cli.allowing import Allowance, require_allowed, require_useful
from remit.cli.approval_view import render_left
from remit.cli.approval_watch import Asked
from remit.cli.plan import NobodyToAsk
from remit.cli.plan_summary import DIFF_LINES, lines_not_shown, not_allowed, render_preview
from remit.cli.plan_words import flag_for
from remit.cli.shown import show_json, show_table
from remit.cli.suggested import Wheres, joined
from remit.contracts.desk_plans import ProposalPreview, ProposalView
from remit.contracts.envelope import Approvals
from remit.desk.callers import PersonCaller
from remit.desk.plans import PlanDesk
from remit.desk.words import counted
from remit.errors import Reason, Refused
from remit.ids import parse_time
from remit.printable import printable
from remit.workspace import Workspace

LABEL: Final = 10


class Yes(NamedTuple):
    """A person's yes to a plan: what it allows, and to which preview it is; without a digest, he is asked here."""

    who: Person
    allowed: Allowance
    digest: str | None
    reason: str | None
    directory: Path
    as_json: bool
    full: bool = False
    """Every line of the diffs is shown to him."""


def waiting_plans(workspace: Workspace, who: Person) -> list[ProposalView]:
    return PlanDesk(workspace).waiting(_as_admin(who))


def show_plans(workspace: Workspace, found: Sequence[ProposalView], *, as_json: bool) -> None:
    if as_json:
        show_json({"plans": [each.tree() for each in found]})
        return
    if not found:
        click.echo("No proposed plan waits for an answer.")
        return
    rows = [
        (each.proposal_id, each.proposed_by, f"waits, {_left(workspace, each)} left", each.risk, each.title)
        for each in found
    ]
    show_table(("plan", "by", "state", "risk", "would"), rows, prose=("would",))


def plan_named(workspace: Workspace, given: str) -> str | None:
    """The proposal that this id means, or None if it is a question's. Refused if it could be either.

    Ids begin with the time, so that of a question and that of a proposal may begin alike.
    """
    proposals = workspace.proposals
    if (whole := proposals.find(given)) is not None:
        return whole.proposal_id
    try:
        found = proposals.named(given)
    except Refused as problem:
        if problem.reason is Reason.STATE_MISSING:
            return None
        raise
    try:
        question = workspace.approvals.show(given)
    except Refused:
        return found.proposal_id
    raise Refused(
        Reason.MALFORMED,
        "both a question and a proposed plan begin like this; nothing was answered",
        where=given,
        next_step=f"Give the whole id: {found.proposal_id} is the plan, {question.approval_id} the question.",
    )


def show_plan(
    workspace: Workspace, proposal_id: str, who: Person, directory: Path, *, full: bool, as_json: bool
) -> None:
    """With the preview, where there is one to be had."""
    desk, caller = PlanDesk(workspace), _as_admin(who)
    view = desk.get(caller, proposal_id)
    shown = desk.look(caller, proposal_id) if view.state == "PENDING" else None
    if as_json:
        show_json({"proposal": view.tree(), "preview": shown.tree() if shown is not None else None})
        return
    click.echo("\n".join(_lines(workspace, view, shown, directory, most=_most(full=full))))


def approve_plan(workspace: Workspace, proposal_id: str, yes: Yes) -> ProposalView:
    """To what was shown: by the digest of an earlier look, or to what is shown here and now."""
    desk, caller, allowed = PlanDesk(workspace), _as_admin(yes.who), yes.allowed
    shown = desk.look(caller, proposal_id)
    if yes.digest is None:
        _require_terminal(proposal_id, shown.preview_digest, yes.directory, as_json=yes.as_json)
        view, most = desk.get(caller, proposal_id), _most(full=yes.full)
        click.echo("\n".join(_lines(workspace, view, shown, yes.directory, allowed, most=most)))
    require_useful(shown.document, allowed, shown=yes.digest is None)
    require_allowed(shown.document, allowed)
    if yes.digest is None:
        _require_yes(proposal_id, hidden=lines_not_shown(shown.document, _most(full=yes.full)))
    return desk.decide(
        caller,
        proposal_id,
        approved=True,
        preview_digest=yes.digest or shown.preview_digest,
        allow=Approvals.from_tree({kind: list(names) for kind, names in allowed.names.items()}),
        reason=yes.reason,
        even_if_it_fails=allowed.even_if_it_fails,
    )


def deny_plan(workspace: Workspace, proposal_id: str, who: Person, reason: str | None) -> ProposalView:
    return PlanDesk(workspace).decide(_as_admin(who), proposal_id, approved=False, reason=reason)


def plans_to_ask(workspace: Workspace, who: Person, directory: Path) -> Iterator[Asked]:
    """The proposed plans that wait, for whoever stays at the terminal."""
    return (_to_ask(workspace, view, who, directory) for view in waiting_plans(workspace, who))


def _to_ask(workspace: Workspace, view: ProposalView, who: Person, directory: Path) -> Asked:
    """The yes is to the preview that was shown. One that has to name something is given with its own command."""
    desk, caller, name = PlanDesk(workspace), _as_admin(who), view.proposal_id
    nothing = Allowance({}, even_if_it_fails=False)
    digests: list[str] = []

    def show() -> str | None:
        shown = desk.look(caller, name)
        digests[:] = [shown.preview_digest]
        lines = "\n".join(_lines(workspace, view, shown, directory, nothing, most=DIFF_LINES))
        if not shown.document.problems and not not_allowed(shown.document, {}):
            hidden = lines_not_shown(shown.document, DIFF_LINES)
            unseen = (
                f"\n  {counted(hidden, 'line')} of its diffs not shown: {_command('show', directory, name, '--full')}"
            )
            return lines + (unseen if hidden else "")
        why = "It would fail" if shown.document.problems else "It needs a yes by name"
        named = [word for kind, each in not_allowed(shown.document, {})[:20] for word in (flag_for(kind), each)]
        commands = f"{_command('approve', directory, name, *named)}; or: {_command('deny', directory, name)}"
        click.echo(f"\n{lines}\n\n{why}, so it is not asked here: {commands}")
        return None

    def decide(approved: bool, reason: str | None) -> str:
        found = desk.decide(
            caller, name, approved=approved, preview_digest=digests[0] if approved else None, reason=reason
        )
        return "\n".join(_told(found, directory))

    return Asked(
        view.created_at,
        ("plan", name),
        show,
        "Approve this plan?",
        f"open until {view.expires_at[:19]}Z: {_command('approve', directory, name)}",
        decide,
    )


def tell_plan(view: ProposalView, directory: Path, *, as_json: bool) -> None:
    if as_json:
        show_json(view.tree())
        return
    click.echo("\n".join(_told(view, directory)))


def _told(view: ProposalView, directory: Path) -> Iterator[str]:
    word = "Approved" if view.state == "APPROVED" else "Denied"
    yield f"{word}: {printable(view.title)}, proposed by {printable(view.proposed_by)} ({view.proposal_id})"
    if view.state == "APPROVED":
        where = Wheres(directory).here
        until = f"until {(view.apply_until or '')[:19]}Z"
        yield f"  next, {until}: {joined(('remit', 'apply', *where, '--proposal', view.proposal_id))}"


def _require_terminal(proposal_id: str, digest: str, directory: Path, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise NobodyToAsk(
            Reason.MISUSE,
            "a yes to a plan is to what was shown, and there is nobody here to show it to; nothing was approved",
            where=f"proposal {proposal_id}",
            next_step=f"Look at it: {_command('show', directory, proposal_id)}; then, if it is as you want it:"
            f" {_command('approve', directory, proposal_id, '--digest', digest)}",
        )


def _most(*, full: bool) -> int | None:
    return None if full else DIFF_LINES


def _require_yes(proposal_id: str, *, hidden: int) -> None:
    unseen = f" ({counted(hidden, 'line')} of its diffs not shown)" if hidden else ""
    try:
        is_yes = click.confirm(f"Approve this plan?{unseen}", default=False, err=True)
    except click.Abort:  # Ctrl-C or the end of input is no yes
        is_yes = False
    if not is_yes:
        raise NobodyToAsk(
            Reason.CANCELLED,
            "not approved, and not denied either: it waits",
            where=f"proposal {proposal_id}",
            next_step=f"To say no for good: remit approvals deny {proposal_id}",
        )


def _lines(
    workspace: Workspace,
    view: ProposalView,
    shown: ProposalPreview | None,
    directory: Path,
    allowed: Allowance | None = None,
    *,
    most: int | None,
) -> Iterator[str]:
    """`allowed` is given where the answer is asked for right below."""
    by = printable(view.proposed_by) + (f", token {printable(view.token_jti)}" if view.token_jti else "")
    yield click.style(f"Proposal {view.proposal_id}", bold=True) + f", by {by}"
    yield _labelled("plan", printable(view.title))
    if view.note:
        yield _labelled("note", f"{printable(view.note)} (the proposer's own words)")
    if shown is not None:
        yield ""
        yield from render_preview(shown.document, allowed.names if allowed is not None else {}, most=most)
        yield ""
        yield _labelled("digest", shown.preview_digest)
        yield _labelled("time", f"{_left(workspace, view)} left, until {view.expires_at[:19]}Z")
        if allowed is None:
            name = view.proposal_id
            yield _labelled("answer", _command("approve", directory, name, "--digest", shown.preview_digest))
            yield _labelled("", _command("deny", directory, name))
        return
    answered = f" by {printable(view.decided_by)} at {(view.decided_at or '')[:19]}Z" if view.decided_by else ""
    yield _labelled("state", f"{view.state}{f', answered{answered}' if answered else ''}")
    if view.reason:
        yield _labelled("reason", printable(view.reason))
    if view.report_folder:
        yield _labelled("report", printable(view.report_folder))


def _command(name: str, directory: Path, *rest: str) -> str:
    return joined(("remit", "approvals", name, *Wheres(directory).here, *rest))


def _left(workspace: Workspace, view: ProposalView) -> str:
    return render_left(max((parse_time(view.expires_at) - workspace.clock()).total_seconds(), 0))


def _labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"


def _as_admin(who: Person) -> PersonCaller:
    """Whoever is at the terminal could open the state directory, and so has every right that a person has."""
    return PersonCaller(who, "admin")
