"""The pages of runs: the list, and one run with its graph, its report and its rollback."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.services.ledger import EntryFilter
from remit.contracts.services.plans import ProposalState, ProposalView, RunDocuments, RunView, UndoAnswer, UndoLook
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import Caller
from remit.web.console import confirm as confirm_texts
from remit.web.console.confirm import Confirmation
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled, FormFields
from remit.web.console.graphs import Graph
from remit.web.console.pages import ConsoleRoute, Viewer, get_services, page, redirect_to, require_viewer
from remit.web.console.plan_pages import (
    PreviewShown,
    StepView,
    draw_steps,
    list_rollbacks,
    list_steps,
    map_step_states,
    show_changes,
)
from remit.web.console.templating import address
from remit.web.http.problems import status_of

if TYPE_CHECKING:
    from remit.services.services import Services

T = TypeVar("T")
router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
EACH_PAGE: Final = 50
APPLY_WAIT: Final = 0.2
"""Seconds. A run that ends within this time needs no page that shows progress."""
_READY: Final[tuple[ProposalState, ...]] = ("APPROVED", "RUNNING", "UNFINISHED")
_NOTICES: Final = {"EXECUTED": "undone", "NOTHING": "undone", "PARTIAL": "undone_partly"}
_GOAL_PLAN_ID: Final = re.compile(r"goal-[0-9a-f]{48}")
"""The id of a plan that a goal made. It contains a digest, which means nothing to a reader."""
_SIMULATION: Final = "simulation "


class RunPage(NamedTuple):
    """Everything about one run: its proposal, its status, its documents, and the preview of a rollback."""

    name: str
    proposal: ProposalView | None
    view: RunView | None
    documents: RunDocuments | None
    picture: Graph | None
    undo_preview: UndoLook | None
    preview: PreviewShown | None = None
    """What was approved, for a plan that is not applied yet."""
    display_name: str = ""
    applied_by: str = ""

    @property
    def canonical_name(self) -> str:
        """The one address of a run: the id of its proposal if it has one, otherwise the id of its envelope."""
        if self.proposal is not None:
            return self.proposal.proposal_id
        return self.view.envelope_id if self.view is not None else self.name

    @property
    def title(self) -> str:
        if self.proposal is not None:
            return self.proposal.title
        return self.display_name or self.name

    @property
    def state(self) -> str:
        if self.proposal is not None:
            return self.proposal.state
        return self.view.status if self.view is not None else ""

    @property
    def is_stale(self) -> bool:
        """Whether the page shows that files changed since the approval."""
        return self.preview is not None and bool(self.preview.changed_since)

    @property
    def can_undo(self) -> bool:
        return self.undo_preview is not None and self.undo_preview.undo.state in {"POSSIBLE", "PARTLY_DONE"}


@router.get("/runs")
def runs(request: Request, cursor: str = "") -> Response:
    viewer = require_viewer(request)
    plans = get_services(request).plans
    ready = plans.list_proposals(viewer.caller, states=_READY, limit=EACH_PAGE).items if not cursor else ()
    found = plans.list_runs(viewer.caller, cursor=cursor or None, limit=EACH_PAGE)
    older = address("/runs", cursor=found.next) if found.next else None
    named = [(get_run_name(get_services(request), viewer.caller, each), each) for each in found.items]
    return page(request, "runs.html", here="/runs", ready=ready, runs=named, older=older)


@router.get("/runs/{name}")
def run(request: Request, name: str) -> Response:
    viewer = require_viewer(request)
    found = _find_run(request, viewer, name)
    if found.canonical_name != name:
        query = f"?{request.url.query}" if request.url.query else ""
        return redirect_to(address(f"/runs/{found.canonical_name}") + query)
    return _build_page(request, found)


@router.post("/runs/apply")
def apply(request: Request, form: Filled) -> Response:
    viewer, name = require_viewer(request), form.one("name")
    if not is_confirmed(form):
        return _render_confirmation(request, viewer, form, confirm_texts.apply)
    try:
        get_services(request).plans.apply(viewer.caller, name, APPLY_WAIT)
    except RefusedError as problem:
        return _render_run(request, viewer, name, problem)
    return redirect_to(address(f"/runs/{name}", said="applied"))


@router.post("/runs/cancel")
def cancel(request: Request, form: Filled) -> Response:
    viewer, name = require_viewer(request), form.one("name")
    if not is_confirmed(form):
        return _render_confirmation(request, viewer, form, confirm_texts.cancel)
    try:
        get_services(request).plans.cancel(viewer.caller, name)
    except RefusedError as problem:
        return _render_run(request, viewer, name, problem)
    return redirect_to(address(f"/runs/{name}", said="cancelled"))


@router.post("/runs/undo")
def undo(request: Request, form: Filled) -> Response:
    viewer, name = require_viewer(request), form.one("name")
    digest = form.given("drift_digest")
    if not is_confirmed(form):
        drifted = get_services(request).plans.preview_undo(viewer.caller, name).drifted if digest else ()
        return _render_confirmation(request, viewer, form, lambda title: confirm_texts.undo(title, len(drifted)))
    try:
        answer = get_services(request).plans.undo(viewer.caller, name, force=bool(digest), drift_digest=digest)
    except RefusedError as problem:
        return _render_run(request, viewer, name, problem)
    if answer.status in _NOTICES:
        return redirect_to(address(f"/runs/{name}", said=_NOTICES[answer.status]))
    return _render_run(request, viewer, name, undone=answer)


def _render_confirmation(
    request: Request, viewer: Viewer, form: FormFields, build_confirmation: Callable[[str], Confirmation]
) -> Response:
    found = _find_run(request, viewer, form.one("name"))
    return render_confirmation(request, form, build_confirmation(found.title), address(f"/runs/{found.name}"))


def _render_run(
    request: Request, viewer: Viewer, name: str, problem: RemitError | None = None, undone: UndoAnswer | None = None
) -> Response:
    return _build_page(request, _find_run(request, viewer, name), problem, undone)


def _build_page(
    request: Request, found: RunPage, problem: RemitError | None = None, undone: UndoAnswer | None = None
) -> Response:
    refused = problem is not None or undone is not None
    status = status_of(problem) if problem is not None else 409 if refused else 200
    is_stale_refusal = found.is_stale and problem is not None and problem.reason is Reason.BINDING_MISMATCH
    changes = show_changes(found.documents.change_log.changes) if found.documents is not None else ()
    return page(
        request,
        "run.html",
        status,
        here="/runs",
        run=found,
        changes=changes,
        rollbacks=list_rollbacks(found.documents.rollbacks) if found.documents is not None else (),
        undone=undone,
        tried=is_stale_refusal,
        problem=None if is_stale_refusal else problem,
    )


def _find_run(request: Request, viewer: Viewer, name: str) -> RunPage:
    """Find a run by the id of its proposal or envelope. A part may be missing: a plan that has not run, or that was not
    proposed here.
    """
    plans, caller = get_services(request).plans, viewer.caller
    view = _find_or_none(lambda: plans.read_run(caller, name))
    proposal_id = view.proposal_id if view is not None else name
    proposal = _find_or_none(lambda: plans.get(caller, proposal_id)) if proposal_id is not None else None
    if view is None and proposal is None:
        raise RefusedError(
            Reason.STATE_MISSING, "there is no such run", where=name, next_step="Open /runs for the list of all runs."
        )
    documents = _find_or_none(lambda: plans.read_report(caller, name)) if view is not None else None
    undo_preview = _find_or_none(lambda: plans.preview_undo(caller, name)) if documents is not None else None
    display_name = get_run_name(get_services(request), caller, view) if view is not None else ""
    who = find_applier(get_services(request), caller, view) if view is not None else ""
    picture = draw_steps(
        _steps(request, viewer, proposal) or list_steps(documents),
        map_step_states(documents.report if documents is not None else None),
        "running" if proposal is not None and proposal.state == "RUNNING" else "",
    )
    return RunPage(
        name, proposal, view, documents, picture, undo_preview, _preview(request, viewer, proposal), display_name, who
    )


def _preview(request: Request, viewer: Viewer, proposal: ProposalView | None) -> PreviewShown | None:
    if proposal is None or proposal.state != "APPROVED":
        return None
    try:
        return PreviewShown.of(get_services(request).plans.read_preview(viewer.caller, proposal.proposal_id))
    except RemitError:  # the plan may be deleted already; an attempt to apply it says why
        return None


def _steps(request: Request, viewer: Viewer, proposal: ProposalView | None) -> Sequence[StepView]:
    """Return the actions of a plan that was proposed here. The text of a void or old plan is no longer stored."""
    if proposal is None:
        return ()
    try:
        return get_services(request).plans.list_actions(viewer.caller, proposal.proposal_id)
    except RefusedError:
        return ()


def _find_or_none(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except RefusedError as problem:
        if problem.reason is not Reason.STATE_MISSING:
            raise
        return None


def get_run_name(services: "Services", caller: Caller, run: RunView) -> str:
    """Return the name of a run. For a goal, that is the simulation that the ledger entry of its envelope names."""
    if not _GOAL_PLAN_ID.fullmatch(run.plan_id):
        return run.plan_id or "not known"
    actor = _find_actor(services, caller, "envelope.issued", run.envelope_id)
    return f"goal: {actor.removeprefix(_SIMULATION)}" if actor.startswith(_SIMULATION) else run.plan_id


def find_applier(services: "Services", caller: Caller, run: RunView) -> str:
    """Return who applied the plan, by the ledger entry of its start. Empty if the entry names no actor."""
    return _find_actor(services, caller, "plan.intent", run.envelope_id)


def _find_actor(services: "Services", caller: Caller, kind: str, envelope_id: str) -> str:
    wanted = EntryFilter.from_tree({"kind": kind, "correlation_id": envelope_id}, source="the list of runs")
    found = services.ledger.list_entries(caller, DEFAULT_TENANT, wanted, None, 1).items
    return (found[0].entry.actor or "") if found and found[0].problem is None else ""
