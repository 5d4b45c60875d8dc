"""Approval requests for proposed plans.

A person reads the stored preview of the plan. The only text of the proposer in it is the note, and it is marked as
such. Only `compute` and `approve` run parts of a plan.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from remit.cli.approvals.render import render_time_left
from remit.cli.approvals.watch import ApprovalPrompt, PromptText
from remit.cli.common.bidi import display_name
from remit.cli.common.errors import about_plan
from remit.cli.common.identity import as_admin
from remit.cli.common.options import show_json, show_table
from remit.cli.common.progress import showing_progress
from remit.cli.common.signals import interrupting
from remit.cli.common.suggest import LocationOptions, joined
from remit.cli.common.terminal import FullText, NoTerminalError, Screen, ask, find_screen
from remit.cli.plans.allow_options import (
    EVEN_IF_IT_FAILS,
    MAX_COMMAND_LENGTH,
    Allowance,
    require_allowed,
    require_useful,
)
from remit.cli.plans.preview_digest import NamedPreview, render_digest_options, require_hidden_lines_named
from remit.cli.plans.render import DIFF_LINES, count_hidden_lines, list_missing_approvals, render_preview
from remit.cli.plans.render_for_agent import render_plan_text
from remit.cli.plans.text import flag_for
from remit.contracts.plans.agent_views import AgentPlanPreview
from remit.contracts.plans.envelope import Approvals
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.services.plans import MAX_PAGE, ChangedSince, ProposalPreview, ProposalView
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, parse_time
from remit.identity.callers import PersonCaller
from remit.identity.own_requests import find_own_request_refusal, require_other_person
from remit.identity.person import Person
from remit.ledger.entry import Entry
from remit.ledger.search import SearchFilter, find_entries
from remit.plans.proposals.errors import outdated_digest_error
from remit.plans.proposals.previews import FailedPreview, PreviewNotStoredError
from remit.plans.service import preview_outdated_error
from remit.services.base.entry_text import read_payload
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace

LABEL: Final = 10
MAX_CHANGES: Final = 20
MAX_LISTED: Final = 1_000
_PROBLEM_WORDS: Final = {
    "configuration_changed": "preview is stale: the configuration changed",
    "would_fail": "would fail, so it cannot be approved",
}
_STATE_WORDS: Final = {"computing": "is being computed", "not_computed": "not computed", "failed": "failed"}


class ApprovalArguments(NamedTuple):
    """The arguments of an approval: what it allows and for which preview. Without a preview, the person is asked."""

    who: Person
    allowed: Allowance
    named: NamedPreview | None
    reason: str | None
    directory: Path
    as_json: bool
    full: bool = False
    """Whether every line of the diffs is shown."""


class UnusedApproval(NamedTuple):
    """What an approver needs to know about an approval that is not used: what changed since, and the last refusal."""

    changed_since: Sequence[ChangedSince] = ()
    refusal: Entry | None = None

    def as_json(self) -> dict[str, Any]:
        refusal = None
        if self.refusal is not None:
            payload = read_payload(self.refusal)
            fields = ("reason", "what", "where", "next_step")
            refusal = {"at": self.refusal.created_at} | {name: payload.get(name) for name in fields}
        return {"changed_since": [each.tree() for each in self.changed_since], "last_refusal": refusal}


def list_waiting_plans(workspace: Workspace, who: Person) -> list[ProposalView]:
    return PlanService(workspace).list_pending(as_admin(who))


def list_plans(workspace: Workspace, who: Person, *, everything: bool) -> list[ProposalView]:
    """List the pending proposals; with `everything`, the newest thousand in any state."""
    if not everything:
        return list_waiting_plans(workspace, who)
    service, found, cursor = PlanService(workspace), list[ProposalView](), None
    while len(found) < MAX_LISTED:
        page = service.list_proposals(as_admin(who), cursor=cursor, limit=min(MAX_PAGE, MAX_LISTED - len(found)))
        found += page.items
        if (cursor := page.next) is None:
            break
    return found


def show_plans(workspace: Workspace, found: Sequence[ProposalView], *, as_json: bool, everything: bool = False) -> None:
    if as_json:
        show_json({"plans": [each.tree() for each in found]})
        return
    if not found:
        click.echo("There are no proposed plans." if everything else "No proposed plan is pending.")
        return
    rows = [
        (each.proposal_id, each.proposed_by, _describe_state(workspace, each), each.risk, each.title) for each in found
    ]
    show_table(("plan", "by", "state", "risk", "would"), rows, prose=("would",))


def _describe_state(workspace: Workspace, view: ProposalView) -> str:
    """Return the state with the time that is left, or the person who decided."""
    if view.state == "PENDING":
        missing = f", preview {_STATE_WORDS[view.preview_state]}" if view.preview_state in _STATE_WORDS else ""
        problem = f", {_PROBLEM_WORDS[view.preview_problem]}" if view.preview_problem is not None else ""
        return f"pending, {_time_left(workspace, view)} left{missing}{problem}"
    state = view.state.lower().replace("_", " ")
    if view.state == "APPROVED":
        return f"approved by {view.decided_by}, not applied"
    return f"denied by {view.decided_by}" if view.state == "DENIED" else state


def find_proposal_id(workspace: Workspace, name_or_id: str) -> str | None:
    """Return the proposal with this id, or None if it is another request's. Refuse an ambiguous id.

    Ids begin with the time, so the id of a proposal and the id of another request can have the same beginning.
    """
    proposals = workspace.proposals
    if (exact := proposals.find(name_or_id)) is not None:
        return exact.proposal_id
    try:
        found = proposals.find_by_name(name_or_id)
    except RefusedError as problem:
        if problem.reason is Reason.STATE_MISSING:
            return None
        raise
    try:
        question = workspace.approvals.show(name_or_id)
    except RefusedError:
        return found.proposal_id
    raise RefusedError(
        Reason.MALFORMED,
        "both a request and a proposed plan have an id that begins like this; nothing was decided",
        where=name_or_id,
        next_step=f"Give the whole id: {found.proposal_id} is the plan, {question.approval_id} the request.",
    )


@about_plan()
def show_plan(
    workspace: Workspace, proposal_id: str, who: Person, directory: Path, *, full: bool, as_json: bool
) -> None:
    """Show a proposal, with its stored preview if there is one."""
    service, caller = PlanService(workspace), as_admin(who)
    view = service.get(caller, proposal_id)
    shown = _find_stored_preview(service, caller, view) if view.state == "PENDING" else None
    unused = _find_unused_approval(workspace, service, caller, view) if view.state == "APPROVED" else UnusedApproval()
    if as_json:
        preview = shown.tree() if shown is not None else None
        failed = _find_failed_preview(workspace, view) if view.state == "PENDING" and shown is None else None
        more: dict[str, Any] = {"preview_failed": failed._asdict()} if failed is not None else {}
        if shown is None and (text := service.read_text(caller, proposal_id)) is not None:
            more["plan_text"] = text.tree()
        show_json({"proposal": view.tree(), "preview": preview, **more, **unused.as_json()})
        return
    own = find_own_request_refusal(caller, view.proposed_by, workspace.config, where=f"proposal {proposal_id}")
    max_lines = _diff_limit(full=full)
    text = service.read_text(caller, proposal_id) if shown is None else None
    lines = _lines(workspace, view, shown, directory, max_lines=max_lines, unused=unused, own=own, text=text)
    click.echo("\n".join(lines))


@about_plan()
def compute_plan(
    workspace: Workspace, proposal_id: str, who: Person, directory: Path, *, full: bool, as_json: bool
) -> None:
    """Compute the preview of a proposal again, store it, and show it."""
    service, caller = PlanService(workspace), as_admin(who)
    with interrupting(), showing_progress(quiet=as_json):
        shown = service.compute_preview(caller, proposal_id)
    view = service.get(caller, proposal_id)
    if as_json:
        show_json({"proposal": view.tree(), "preview": shown.tree()})
        return
    click.echo("\n".join(_lines(workspace, view, shown, directory, max_lines=_diff_limit(full=full))))


@about_plan()
def approve_plan(workspace: Workspace, proposal_id: str, arguments: ApprovalArguments) -> ProposalView:
    """Approve the preview that the person read: named by its digest, or shown by this command."""
    service, caller, allowed, named = (
        PlanService(workspace),
        as_admin(arguments.who),
        arguments.allowed,
        arguments.named,
    )
    row = service.require_unanswered(caller, proposal_id)
    require_other_person(caller, row.proposed_by, workspace.config, where=f"proposal {proposal_id}")
    shown, max_lines = service.read_preview(caller, proposal_id), _diff_limit(full=arguments.full)
    if shown.changed_since:
        compute = _command("compute", arguments.directory, proposal_id)
        raise preview_outdated_error(shown.document.plan_id, shown.changed_since[0].path, compute)
    if named is not None and named.digest != shown.preview_digest:
        raise outdated_digest_error(row)
    screen = None
    if named is None:
        screen = find_screen(as_json=arguments.as_json)
        if screen is None:
            raise _no_terminal_error(shown, arguments.directory, max_lines)
        view = service.get(caller, proposal_id)
        screen.show_and_print(
            "\n".join(_lines(workspace, view, shown, arguments.directory, allowed, max_lines=max_lines))
        )
    else:
        read = _command("show", arguments.directory, proposal_id, "--full")
        require_hidden_lines_named(shown.document, named, max_lines, read=read)
    require_useful(
        shown.document, allowed, shown=screen is not None, deny=_deny_command(arguments.directory, proposal_id)
    )
    require_allowed(shown.document, allowed)
    if screen is not None:
        _require_confirmation(screen, proposal_id, shown.document, allowed, max_lines)
    return service.decide(
        caller,
        proposal_id,
        approved=True,
        preview_digest=named.digest if named is not None else shown.preview_digest,
        allow=Approvals.from_tree({kind: list(names) for kind, names in allowed.names.items()}),
        reason=arguments.reason,
        even_if_it_fails=allowed.even_if_it_fails,
    )


@about_plan()
def deny_plan(workspace: Workspace, proposal_id: str, who: Person, reason: str | None) -> ProposalView:
    return PlanService(workspace).decide(as_admin(who), proposal_id, approved=False, reason=reason)


def list_plan_prompts(workspace: Workspace, who: Person, directory: Path) -> Iterator[ApprovalPrompt]:
    """Return the prompts of the pending proposals, for `remit approvals --wait`."""
    return (_make_prompt(workspace, view, who, directory) for view in list_waiting_plans(workspace, who))


def _make_prompt(workspace: Workspace, view: ProposalView, who: Person, directory: Path) -> ApprovalPrompt:
    """Make the prompt that approves the preview it shows. An approval by name needs a command, which it prints."""
    service, caller, name = PlanService(workspace), as_admin(who), view.proposal_id
    no_allowance = Allowance({}, even_if_it_fails=False)
    digests: list[str] = []

    def show() -> PromptText | None:
        where = f"proposal {name}"
        if refusal := find_own_request_refusal(caller, view.proposed_by, workspace.config, where=where):
            raise refusal
        shown = service.read_preview(caller, name)
        digests[:] = [shown.preview_digest]
        lines = "\n".join(_lines(workspace, view, shown, directory, no_allowance, max_lines=DIFF_LINES))
        if shown.changed_since:
            click.echo(f"\n{lines}\n\nThe preview is stale, so the plan cannot be approved here.")
            return None
        if not shown.document.problems and not list_missing_approvals(shown.document, {}):
            return PromptText(
                lines,
                count_hidden_lines(shown.document, DIFF_LINES),
                lambda: _render_full_text(shown.document, no_allowance),
            )
        why = "The plan would fail" if shown.document.problems else "The plan needs an approval by name"
        commands = f"{_deny_command(directory, name)} (the proposer reads the reason)"
        if not shown.document.cannot_be_approved:
            commands = f"{_command('approve', directory, name, *_allowances(shown.document))}; or: {commands}"
        click.echo(f"\n{lines}\n\n{why}, so it cannot be approved here. Use: {commands}")
        return None

    def decide(approved: bool, reason: str | None) -> str:
        found = service.decide(
            caller, name, approved=approved, preview_digest=digests[0] if approved else None, reason=reason
        )
        return "\n".join(_render_decided(found, directory))

    return ApprovalPrompt(
        view.created_at,
        ("plan", name),
        show,
        "Approve this plan?",
        f"open until {view.expires_at[:19]}Z: {_command('approve', directory, name)}",
        decide,
    )


def print_decided_plan(view: ProposalView, directory: Path, *, as_json: bool) -> None:
    if as_json:
        show_json(view.tree())
        return
    click.echo("\n".join(_render_decided(view, directory)))


def _render_decided(view: ProposalView, directory: Path) -> Iterator[str]:
    decision = "Approved" if view.state == "APPROVED" else "Denied"
    yield f"{decision}: {display_name(view.title)}, proposed by {display_name(view.proposed_by)} ({view.proposal_id})"
    if view.state == "APPROVED":
        where = LocationOptions(directory).directory_arguments
        until = f"until {(view.apply_until or '')[:19]}Z"
        yield f"  next, {until}: {joined(('remit', 'apply', *where, '--proposal', view.proposal_id))}"


def _no_terminal_error(shown: ProposalPreview, directory: Path, max_lines: int | None) -> RefusedError:
    name, full = shown.proposal_id, ["--full"] if max_lines is None else []
    show_command = _command("show", directory, name, *full)
    command = _approve_command(shown, directory, max_lines)
    if shown.document.cannot_be_approved:
        then = f"the plan would fail, so it can only be denied, with a reason: {_deny_command(directory, name)}"
    elif len(command) > MAX_COMMAND_LENGTH:
        then = "if you want these changes, run the command that is shown there after `answer`"
    else:
        then = f"then, if you want these changes: {command}"
    return NoTerminalError(
        Reason.APPROVAL_PENDING,
        "a plan can only be approved as it was shown, and there is no terminal to show it; nothing was approved",
        where=f"proposal {name}",
        next_step=f"Read the preview: {show_command}; {then}",
    )


def _approve_command(shown: ProposalPreview, directory: Path, max_lines: int | None) -> str:
    """Return the command that approves the preview as shown with `max_lines` lines a diff, with all its options."""
    options = ["--digest", shown.preview_digest, *(["--full"] if max_lines is None else [])]
    if hidden := count_hidden_lines(shown.document, max_lines):
        options += ["--unseen-lines", str(hidden)]
    return _command("approve", directory, shown.proposal_id, *options, *_allowances(shown.document))


def _allowances(document: PlanPreviewDocument) -> list[str]:
    """Return the options that an approval of this plan needs."""
    options = [option for kind, each in list_missing_approvals(document, {}) for option in (flag_for(kind), each)]
    return [*options, *([EVEN_IF_IT_FAILS] if document.problems else [])]


def _deny_command(directory: Path, proposal_id: str) -> str:
    """Return the command that denies a proposal, with a reason. The reason may be all that the proposer sees."""
    return f'{_command("deny", directory, proposal_id)} --reason "..."'


def _diff_limit(*, full: bool) -> int | None:
    return None if full else DIFF_LINES


def _render_full_text(document: PlanPreviewDocument, allowed: Allowance) -> FullText:
    lines = render_preview(document, allowed.names, max_lines=None)
    return FullText("\n".join(lines), count_hidden_lines(document, None))


def _require_confirmation(
    screen: Screen, proposal_id: str, document: PlanPreviewDocument, allowed: Allowance, max_lines: int | None
) -> None:
    hidden = count_hidden_lines(document, max_lines)
    if not ask(screen, "Approve this plan?", hidden=hidden, full_text=lambda: _render_full_text(document, allowed)):
        raise NoTerminalError(
            Reason.CANCELLED,
            "not approved and not denied; the proposal is still pending",
            where=f"proposal {proposal_id}",
            next_step=f"To deny it: remit approvals deny {proposal_id}",
        )


def _lines(  # noqa: PLR0913 - what one text shows
    workspace: Workspace,
    view: ProposalView,
    shown: ProposalPreview | None,
    directory: Path,
    allowed: Allowance | None = None,
    *,
    max_lines: int | None,
    unused: UnusedApproval | None = None,
    own: RefusedError | None = None,
    text: AgentPlanPreview | None = None,
) -> Iterator[str]:
    """Yield the lines of a proposal. `allowed` is given if the question follows right below.

    `own` says why the reader cannot approve it, if they proposed it themselves. `text` is what the plan's text says.
    """
    by = display_name(view.proposed_by) + (f", token {display_name(view.token_jti)}" if view.token_jti else "")
    yield click.style(f"Proposal {view.proposal_id}", bold=True) + f", by {by}"
    yield _render_labelled("plan", display_name(view.title))
    if view.note:
        yield _render_labelled("note", f"{display_name(view.note)} (the proposer's own words)")
    if shown is not None:
        yield ""
        yield from render_preview(shown.document, allowed.names if allowed is not None else {}, max_lines=max_lines)
        yield ""
        yield from _render_computed(shown, directory)
        yield from render_digest_options(shown.document, max_lines)
        yield _render_labelled("time", f"{_time_left(workspace, view)} left, until {view.expires_at[:19]}Z")
        if own is not None:
            yield _render_labelled("answer", _command("deny", directory, view.proposal_id))
            yield _render_labelled("", f"{display_name(own.what)}. {display_name(own.next_step)}")
        elif allowed is None:
            yield from _render_answers(shown, directory, max_lines)
        return
    if view.state == "PENDING":
        yield from _render_missing_preview(_find_failed_preview(workspace, view), view.preview_note)
        yield from _render_without_preview(view, text, directory, max_lines)
    answered = f" by {display_name(view.decided_by)} at {(view.decided_at or '')[:19]}Z" if view.decided_by else ""
    yield _render_labelled("state", f"{view.state}{f', answered{answered}' if answered else ''}")
    if view.reason:
        yield _render_labelled("reason", display_name(view.reason))
    if view.envelope_id:
        yield _render_labelled("envelope", display_name(view.envelope_id))
    if view.report_folder:
        yield _render_labelled("report", display_name(view.report_folder))
    if view.state == "APPROVED":
        yield from _render_unused(view, unused or UnusedApproval(), directory)


def _render_without_preview(
    view: ProposalView, text: AgentPlanPreview | None, directory: Path, max_lines: int | None
) -> Iterator[str]:
    if text is not None:
        yield from ("", *render_plan_text(text, max_lines), "")
    command = _command("compute", directory, view.proposal_id)
    yield _render_labelled("compute", f"{command} (runs the SQL and pipelines of the plan)")
    yield _render_labelled("answer", _command("deny", directory, view.proposal_id))


def _render_unused(view: ProposalView, unused: UnusedApproval, directory: Path) -> Iterator[str]:
    """Yield why an approved plan was not applied, what changed since the approval, and what to do."""
    where = LocationOptions(directory).directory_arguments
    apply = joined(("remit", "apply", *where, "--proposal", view.proposal_id))
    if unused.refusal is not None:
        payload = read_payload(unused.refusal)
        place = f" ({display_name(str(payload['where']))})" if payload.get("where") else ""
        what = display_name(str(payload.get("what", "")))
        yield _render_labelled("refused", f"at {unused.refusal.created_at[:19]}Z: {what}{place}")
    for number, each in enumerate(unused.changed_since[:MAX_CHANGES]):
        yield _render_labelled("changed" if number == 0 else "", f"{display_name(each.path)}: {display_name(each.how)}")
    if len(unused.changed_since) > MAX_CHANGES:
        yield _render_labelled("", f"and {len(unused.changed_since) - MAX_CHANGES:,} more")
    until = f"until {(view.apply_until or '')[:19]}Z"
    if not unused.changed_since:
        yield _render_labelled("next", f"{until}: {apply}")
        return
    withdraw = joined(("remit", "cancel", *where, view.envelope_id or ""))
    yield _render_labelled("next", f"Restore what was changed, and apply the plan {until}: {apply}")
    yield _render_labelled("", f"Or withdraw it, and have it proposed again for the files as they are: {withdraw}")


def _render_missing_preview(failed: FailedPreview | None, note: str | None) -> Iterator[str]:
    if failed is None:
        yield _render_labelled("preview", "none is stored, so the effect of the plan is not known")
        if note is not None:
            yield _render_labelled("", note)
        return
    place = f" ({display_name(failed.where)})" if failed.where else ""
    yield _render_labelled(
        "preview", f"none is stored: computing it failed at {failed.at[:19]}Z: {display_name(failed.what)}{place}"
    )
    if failed.next_step:
        yield _render_labelled("next", display_name(failed.next_step))


def _render_answers(shown: ProposalPreview, directory: Path, max_lines: int | None) -> Iterator[str]:
    """Yield the possible commands. A stale preview must be computed again; a plan that fails can only be denied."""
    if shown.changed_since:
        yield _render_labelled("answer", _command("deny", directory, shown.proposal_id))
    elif shown.document.cannot_be_approved:
        yield _render_labelled("answer", _deny_command(directory, shown.proposal_id))
    else:
        yield _render_labelled("answer", _approve_command(shown, directory, max_lines))
        yield _render_labelled("", _command("deny", directory, shown.proposal_id))


def _find_unused_approval(
    workspace: Workspace, service: PlanService, caller: PersonCaller, view: ProposalView
) -> UnusedApproval:
    preview = _find_stored_preview(service, caller, view)
    refused = SearchFilter(kind="plan.refused", correlation_id=view.envelope_id)
    with workspace.store.reading() as connection:
        found = find_entries(connection, DEFAULT_TENANT, refused, None, 1).entries
    return UnusedApproval(preview.changed_since if preview is not None else (), next(iter(found), None))


def _find_failed_preview(workspace: Workspace, view: ProposalView) -> FailedPreview | None:
    row = workspace.proposals.find(view.proposal_id)
    return None if row is None else workspace.proposals.failed_preview_of(row)


def _find_stored_preview(service: PlanService, caller: PersonCaller, view: ProposalView) -> ProposalPreview | None:
    try:
        return service.read_preview(caller, view.proposal_id)
    except PreviewNotStoredError:
        return None


def _render_computed(shown: ProposalPreview, directory: Path) -> Iterator[str]:
    """Yield when and for whom the preview was computed, and the files that have changed since."""
    if shown.computed_at:
        yield _render_labelled("computed", f"{shown.computed_at[:19]}Z, for {display_name(shown.computed_by or '')}")
    for number, each in enumerate(shown.changed_since[:MAX_CHANGES]):
        yield _render_labelled("stale" if number == 0 else "", f"{display_name(each.path)}: {display_name(each.how)}")
    if shown.changed_since:
        yield _render_labelled("compute", _command("compute", directory, shown.proposal_id))


def _command(name: str, directory: Path, *rest: str) -> str:
    return joined(("remit", "approvals", name, *LocationOptions(directory).directory_arguments, *rest))


def _time_left(workspace: Workspace, view: ProposalView) -> str:
    return render_time_left(max((parse_time(view.expires_at) - workspace.clock()).total_seconds(), 0))


def _render_labelled(label: str, text: str) -> str:
    return f"  {label.ljust(LABEL)}{text}"
