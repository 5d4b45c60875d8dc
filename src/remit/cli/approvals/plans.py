"""Proposed plans among the questions for people, at the command line.

What a person is shown is the plan's own preview, as it was computed and stored: an agent words none of it but the
note, and that is told as such. Nothing here but `compute` and `approve` runs anything of a plan.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from remit.cli.approvals.render import render_left
from remit.cli.approvals.watch import ApprovalPrompt, PromptText
from remit.cli.common.bidi import shown_name
from remit.cli.common.options import show_json, show_table
from remit.cli.common.suggest import Wheres, joined
from remit.cli.common.terminal import NoTerminalError, Screen, Whole, ask, find_screen
from remit.cli.plans.allow_options import EVEN_IF_IT_FAILS, LONGEST_COMMAND, Allowance, require_allowed, require_useful
from remit.cli.plans.preview_digest import NamedPreview, render_named, require_unseen_named
from remit.cli.plans.render import DIFF_LINES, lines_not_shown, not_allowed, render_preview
from remit.cli.plans.text import flag_for
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.services.plans import ProposalPreview, ProposalView
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time
from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from remit.plans.proposals.errors import outdated_digest_error
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.plans.service import preview_outdated_error
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace

LABEL: Final = 10


class ApprovalArguments(NamedTuple):
    """A person's approval of a plan: what it allows, and of which preview it is. Without one, the person is asked."""

    who: Person
    allowed: Allowance
    named: NamedPreview | None
    reason: str | None
    directory: Path
    as_json: bool
    full: bool = False
    """Every line of the diffs is shown to him."""


def waiting_plans(workspace: Workspace, who: Person) -> list[ProposalView]:
    return PlanService(workspace).list_pending(_as_admin(who))


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
        found = proposals.find_by_name(given)
    except RefusedError as problem:
        if problem.reason is Reason.STATE_MISSING:
            return None
        raise
    try:
        question = workspace.approvals.show(given)
    except RefusedError:
        return found.proposal_id
    raise RefusedError(
        Reason.MALFORMED,
        "both a question and a proposed plan begin like this; nothing was answered",
        where=given,
        next_step=f"Give the whole id: {found.proposal_id} is the plan, {question.approval_id} the question.",
    )


def show_plan(
    workspace: Workspace, proposal_id: str, who: Person, directory: Path, *, full: bool, as_json: bool
) -> None:
    """With the stored preview, where there is one."""
    desk, caller = PlanService(workspace), _as_admin(who)
    view = desk.get(caller, proposal_id)
    shown = _stored(desk, caller, view) if view.state == "PENDING" else None
    if as_json:
        show_json({"proposal": view.tree(), "preview": shown.tree() if shown is not None else None})
        return
    click.echo("\n".join(_lines(workspace, view, shown, directory, most=_most(full=full))))


def compute_plan(
    workspace: Workspace, proposal_id: str, who: Person, directory: Path, *, full: bool, as_json: bool
) -> None:
    """Compute its preview again and store it, then show it."""
    desk, caller = PlanService(workspace), _as_admin(who)
    shown = desk.compute_preview(caller, proposal_id)
    view = desk.get(caller, proposal_id)
    if as_json:
        show_json({"proposal": view.tree(), "preview": shown.tree()})
        return
    click.echo("\n".join(_lines(workspace, view, shown, directory, most=_most(full=full))))


def approve_plan(workspace: Workspace, proposal_id: str, yes: ApprovalArguments) -> ProposalView:
    """Of what was shown: by the digest of an earlier look, or of what is shown here and now."""
    desk, caller, allowed, named = PlanService(workspace), _as_admin(yes.who), yes.allowed, yes.named
    row = desk.require_unanswered(caller, proposal_id)
    shown, most = desk.read_preview(caller, proposal_id), _most(full=yes.full)
    if shown.changed_since:
        compute = _command("compute", yes.directory, proposal_id)
        raise preview_outdated_error(shown.document.plan_id, shown.changed_since[0].path, compute)
    if named is not None and named.digest != shown.preview_digest:
        raise outdated_digest_error(row)
    screen = None
    if named is None:
        screen = find_screen(as_json=yes.as_json)
        if screen is None:
            raise _no_screen(shown, yes.directory, most)
        view = desk.get(caller, proposal_id)
        screen.show_and_print("\n".join(_lines(workspace, view, shown, yes.directory, allowed, most=most)))
    else:
        read = _command("show", yes.directory, proposal_id, "--full")
        require_unseen_named(shown.document, named, most, read=read)
    require_useful(shown.document, allowed, shown=screen is not None, deny=_deny(yes.directory, proposal_id))
    require_allowed(shown.document, allowed)
    if screen is not None:
        _require_yes(screen, proposal_id, shown.document, allowed, most)
    return desk.decide(
        caller,
        proposal_id,
        approved=True,
        preview_digest=named.digest if named is not None else shown.preview_digest,
        allow=Approvals.from_tree({kind: list(names) for kind, names in allowed.names.items()}),
        reason=yes.reason,
        even_if_it_fails=allowed.even_if_it_fails,
    )


def deny_plan(workspace: Workspace, proposal_id: str, who: Person, reason: str | None) -> ProposalView:
    return PlanService(workspace).decide(_as_admin(who), proposal_id, approved=False, reason=reason)


def plans_to_ask(workspace: Workspace, who: Person, directory: Path) -> Iterator[ApprovalPrompt]:
    """The proposed plans that wait, for whoever stays at the terminal."""
    return (_to_ask(workspace, view, who, directory) for view in waiting_plans(workspace, who))


def _to_ask(workspace: Workspace, view: ProposalView, who: Person, directory: Path) -> ApprovalPrompt:
    """The yes is to the preview that was shown. One that has to name something is given with its own command."""
    desk, caller, name = PlanService(workspace), _as_admin(who), view.proposal_id
    nothing = Allowance({}, even_if_it_fails=False)
    digests: list[str] = []

    def show() -> PromptText | None:
        shown = desk.read_preview(caller, name)
        digests[:] = [shown.preview_digest]
        lines = "\n".join(_lines(workspace, view, shown, directory, nothing, most=DIFF_LINES))
        if shown.changed_since:
            click.echo(f"\n{lines}\n\nIts preview is stale, so it is not asked here.")
            return None
        if not shown.document.problems and not not_allowed(shown.document, {}):
            return PromptText(
                lines, lines_not_shown(shown.document, DIFF_LINES), lambda: _whole(shown.document, nothing)
            )
        why = "It would fail" if shown.document.problems else "It needs an approval by name"
        commands = f"{_deny(directory, name)} (its proposer reads the reason)"
        if not shown.document.doomed:
            commands = f"{_command('approve', directory, name, *_allowances(shown.document))}; or: {commands}"
        click.echo(f"\n{lines}\n\n{why}, so it is not asked here: {commands}")
        return None

    def decide(approved: bool, reason: str | None) -> str:
        found = desk.decide(
            caller, name, approved=approved, preview_digest=digests[0] if approved else None, reason=reason
        )
        return "\n".join(_told(found, directory))

    return ApprovalPrompt(
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
    yield f"{word}: {shown_name(view.title)}, proposed by {shown_name(view.proposed_by)} ({view.proposal_id})"
    if view.state == "APPROVED":
        where = Wheres(directory).here
        until = f"until {(view.apply_until or '')[:19]}Z"
        yield f"  next, {until}: {joined(('remit', 'apply', *where, '--proposal', view.proposal_id))}"


def _no_screen(shown: ProposalPreview, directory: Path, most: int | None) -> RefusedError:
    name, full = shown.proposal_id, ["--full"] if most is None else []
    look = _command("show", directory, name, *full)
    command = _approve(shown, directory, most)
    if shown.document.doomed:
        then = f"it would fail, so it can only be denied (its proposer reads the reason): {_deny(directory, name)}"
    elif len(command) > LONGEST_COMMAND:
        then = "if it is as you want it, give the command that stands there under `answer`"
    else:
        then = f"then, if it is as you want it: {command}"
    return NoTerminalError(
        Reason.MISUSE,
        "a plan is approved as it was shown, and there is no terminal to show it in; nothing was approved",
        where=f"proposal {name}",
        next_step=f"Look at it: {look}; {then}",
    )


def _approve(shown: ProposalPreview, directory: Path, most: int | None) -> str:
    """The command that approves what was shown with `most` lines of each diff, with all that it needs."""
    words = ["--digest", shown.preview_digest, *(["--full"] if most is None else [])]
    if hidden := lines_not_shown(shown.document, most):
        words += ["--unseen-lines", str(hidden)]
    return _command("approve", directory, shown.proposal_id, *words, *_allowances(shown.document))


def _allowances(document: PlanPreviewDocument) -> list[str]:
    """The options that an approval of it has to give."""
    words = [word for kind, each in not_allowed(document, {}) for word in (flag_for(kind), each)]
    return [*words, *([EVEN_IF_IT_FAILS] if document.problems else [])]


def _deny(directory: Path, proposal_id: str) -> str:
    """With a reason: the proposer reads it, and may be told nothing else."""
    return f'{_command("deny", directory, proposal_id)} --reason "..."'


def _most(*, full: bool) -> int | None:
    return None if full else DIFF_LINES


def _whole(document: PlanPreviewDocument, allowed: Allowance) -> Whole:
    lines = render_preview(document, allowed.names, most=None)
    return Whole("\n".join(lines), lines_not_shown(document, None))


def _require_yes(
    screen: Screen, proposal_id: str, document: PlanPreviewDocument, allowed: Allowance, most: int | None
) -> None:
    hidden = lines_not_shown(document, most)
    if not ask(screen, "Approve this plan?", hidden=hidden, whole=lambda: _whole(document, allowed)):
        raise NoTerminalError(
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
    by = shown_name(view.proposed_by) + (f", token {shown_name(view.token_jti)}" if view.token_jti else "")
    yield click.style(f"Proposal {view.proposal_id}", bold=True) + f", by {by}"
    yield _labelled("plan", shown_name(view.title))
    if view.note:
        yield _labelled("note", f"{shown_name(view.note)} (the proposer's own words)")
    if shown is not None:
        yield ""
        yield from render_preview(shown.document, allowed.names if allowed is not None else {}, most=most)
        yield ""
        yield from _computed(shown, directory)
        yield from render_named(shown.document, most)
        yield _labelled("time", f"{_left(workspace, view)} left, until {view.expires_at[:19]}Z")
        if allowed is None:
            yield from _answers(shown, directory, most)
        return
    if view.state == "PENDING":
        yield _labelled("preview", "none is stored, so what the plan would do is not known here")
        yield _labelled("compute", f"{_command('compute', directory, view.proposal_id)} (runs its SQL and pipelines)")
        yield _labelled("answer", _command("deny", directory, view.proposal_id))
    answered = f" by {shown_name(view.decided_by)} at {(view.decided_at or '')[:19]}Z" if view.decided_by else ""
    yield _labelled("state", f"{view.state}{f', answered{answered}' if answered else ''}")
    if view.reason:
        yield _labelled("reason", shown_name(view.reason))
    if view.report_folder:
        yield _labelled("report", shown_name(view.report_folder))


def _answers(shown: ProposalPreview, directory: Path, most: int | None) -> Iterator[str]:
    """The commands that are not refused: a stale preview is computed again first, and a doomed plan is denied."""
    if shown.changed_since:
        yield _labelled("answer", _command("deny", directory, shown.proposal_id))
    elif shown.document.doomed:
        yield _labelled("answer", _deny(directory, shown.proposal_id))
    else:
        yield _labelled("answer", _approve(shown, directory, most))
        yield _labelled("", _command("deny", directory, shown.proposal_id))


def _stored(desk: PlanService, caller: PersonCaller, view: ProposalView) -> ProposalPreview | None:
    try:
        return desk.read_preview(caller, view.proposal_id)
    except PreviewNotStoredError:
        return None


def _computed(shown: ProposalPreview, directory: Path) -> Iterator[str]:
    """When and for whom it was computed, and what has changed since."""
    if shown.computed_at:
        yield _labelled("computed", f"{shown.computed_at[:19]}Z, for {shown_name(shown.computed_by or '')}")
    for number, each in enumerate(shown.changed_since[:20]):
        yield _labelled("stale" if number == 0 else "", f"{shown_name(each.path)}: {shown_name(each.how)}")
    if shown.changed_since:
        yield _labelled("compute", _command("compute", directory, shown.proposal_id))


def _command(name: str, directory: Path, *rest: str) -> str:
    return joined(("remit", "approvals", name, *Wheres(directory).here, *rest))


def _left(workspace: Workspace, view: ProposalView) -> str:
    return render_left(max((parse_time(view.expires_at) - workspace.clock()).total_seconds(), 0))


def _labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"


def _as_admin(who: Person) -> PersonCaller:
    """Whoever is at the terminal could open the state directory, and so has every right that a person has."""
    return PersonCaller(who, "admin")
