"""The inbox pages: open approval requests, one request in full, and the decision."""

from collections.abc import Sequence
from typing import Final, get_args
from urllib.parse import unquote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.plans.agent_views import AgentPlanPreview
from remit.contracts.plans.envelope import Approvals
from remit.contracts.services.common import Decision, QuestionKind, QuestionView
from remit.contracts.services.plans import ProposalView
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.text import counted
from remit.identity.own_requests import is_same_person
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.web.console.confirm import answer as confirm_answer
from remit.web.console.confirm import approve, compute, deny, withdraw
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled, FormFields
from remit.web.console.goals import goal_path
from remit.web.console.graphs import Graph
from remit.web.console.inbox_text import InboxItem
from remit.web.console.languages import find_answers
from remit.web.console.outcomes import describe_next_step, find_outcome, list_closing_times
from remit.web.console.pages import ConsoleRoute, Viewer, get_services, page, redirect_to, require_viewer
from remit.web.console.plan_pages import ALL_FILES, PreviewShown, draw_steps, read_rest
from remit.web.console.templating import address
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
KINDS: Final[tuple[QuestionKind, ...]] = get_args(QuestionKind)
RECENT: Final = 30
ALLOWANCES: Final = ("protected", "executable", "content", "irreversible")


@router.get("/")
def begin() -> Response:
    return redirect_to("/inbox")


@router.get("/inbox")
def inbox(request: Request) -> Response:
    viewer = require_viewer(request)
    services = get_services(request)
    recent = services.inbox.list_recent(viewer.caller, RECENT)
    return page(
        request,
        "inbox.html",
        here="/inbox",
        questions=[InboxItem(each) for each in services.inbox.list_open(viewer.caller)],
        recent=[InboxItem(each) for each in recent],
        closed=list_closing_times(request, viewer, recent),
    )


@router.get("/inbox/question")
def question(request: Request, kind: str = "", id: str = "", tenant: str = "", files: str = "") -> Response:  # noqa: A002 - as in the address
    return _render_question(request, require_viewer(request), kind, id, tenant, is_unfolded=files == ALL_FILES)


@router.get("/inbox/picture")
def picture(request: Request, id: str = "") -> Response:  # noqa: A002 - as in the address
    """Return the screenshot of a held request. It is always sent as a PNG, so no browser treats it as another type."""
    viewer = require_viewer(request)
    body = get_services(request).inbox.read_picture(viewer.caller, id)
    return Response(body, media_type="image/png", headers={"Cache-Control": "no-store"})


@router.get("/inbox/diff")
def diff(request: Request, id: str = "", digest: str = "", file: int = 0, first: int = 0) -> Response:  # noqa: A002 - as in the address
    """Show the lines of one diff that do not fit on the page of the approval request."""
    viewer = require_viewer(request)
    item = InboxItem(get_services(request).inbox.show(viewer.caller, "plan", id).question)
    preview = get_services(request).plans.read_preview(viewer.caller, id)
    rest = read_rest(preview, file, first)
    if rest is None:
        raise RefusedError(
            Reason.STATE_MISSING, "there is no such part of a diff", where=id, next_step="Open the inbox."
        )
    stale = preview.preview_digest != digest
    return page(request, "diff.html", here="/inbox", item=item, rest=rest, first=first, stale=stale)


@router.get("/inbox/{rest:path}")
def open_link(request: Request) -> Response:
    """Redirect from the address that answers contain: `/inbox/plan/ID`, or for a goal the tenant before the id.

    The path is split before it is decoded: a caller chooses the id of a goal, and a slash in it is no separator.
    """
    parts = [unquote(part) for part in request.scope["raw_path"].decode("ascii", "replace").split("/")[2:]]
    if not 2 <= len(parts) <= 3:
        raise _no_question(request.url.path)
    kind, *tenant, name = parts
    return redirect_to(address("/inbox/question", kind=kind, tenant="".join(tenant), id=name))


@router.post("/inbox/answer")
def answer(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    kind, name, tenant = form.one("kind"), form.one("id"), form.one("tenant")
    if kind == "confirmation":
        waiting = _find_confirmation(request, viewer, name, tenant)
        if form.given("step") is not None and (waiting is None or waiting.question.step != form.given("step")):
            return redirect_to(goal_path(tenant, name, said="not_used"))
        if waiting is not None and form.one("pressed") and not is_confirmed(form):
            asked = confirm_answer(waiting.title, form.one("answer"))  # it names the step
            return render_confirmation(request, form, asked, goal_path(tenant, name))
    elif not is_confirmed(form):
        item = InboxItem(
            get_services(request).inbox.show(viewer.caller, _kind(kind), name, tenant=tenant or None).question
        )
        approval, denial = approve(item.title, item.approve_text), deny(item.title, item.deny_text)
        return render_confirmation(request, form, approval if form.one("decision") == "approve" else denial, item.path)
    try:
        notice = _decide(request, viewer, form)
    except RefusedError as problem:
        # The form is lost with the page. The new page shows the present request and why the decision was refused.
        return _render_question(request, viewer, kind, name, tenant, problem, is_unfolded=_is_unfolded(form))
    if kind in {"goal", "confirmation"} and notice != "unclear":
        return redirect_to(goal_path(tenant, name, said=notice))  # the page of the goal shows its further status
    return redirect_to(address("/inbox/question", kind=kind, tenant=tenant, id=name, said=notice))


@router.post("/inbox/compute")
def compute_preview(request: Request, form: Filled) -> Response:
    """Compute the preview of a proposed plan again. To open a page never does that."""
    viewer, name = require_viewer(request), form.one("id")
    item = InboxItem(get_services(request).inbox.show(viewer.caller, "plan", name).question)
    if not is_confirmed(form):
        return render_confirmation(request, form, compute(item.title), item.path)
    try:
        get_services(request).plans.compute_preview(viewer.caller, name)
    except RemitError as problem:
        return _render_question(request, viewer, "plan", name, "", problem)
    return redirect_to(address("/inbox/question", kind="plan", id=name, said="computed"))


@router.post("/inbox/withdraw")
def withdraw_plan(request: Request, form: Filled) -> Response:
    """Withdraw a proposed plan. If it was approved meanwhile, the approval becomes void, and a run is stopped."""
    viewer, name = require_viewer(request), form.one("id")
    item = InboxItem(get_services(request).inbox.show(viewer.caller, "plan", name).question)
    if not is_confirmed(form):
        return render_confirmation(request, form, withdraw(item.title), item.path)
    try:
        withdrawn = get_services(request).plans.cancel(viewer.caller, name, reason=form.given("reason"))
    except RefusedError as problem:
        return _render_question(request, viewer, "plan", name, "", problem)
    if withdrawn.envelope_id is not None:
        return redirect_to(address(f"/runs/{withdrawn.proposal_id}", said="cancelled"))
    return redirect_to(address("/inbox/question", kind="plan", id=name, said="withdrawn"))


def _find_confirmation(request: Request, viewer: Viewer, name: str, tenant: str) -> InboxItem | None:
    """Return the question that a goal waits with. None if it waits with none for the viewer."""
    try:
        return InboxItem(
            get_services(request).inbox.show(viewer.caller, "confirmation", name, tenant=tenant or None).question
        )
    except RefusedError:
        return None


def _render_question(
    request: Request,
    viewer: Viewer,
    kind: str,
    name: str,
    tenant: str,
    problem: RemitError | None = None,
    *,
    is_unfolded: bool = False,
) -> Response:
    view = get_services(request).inbox.show(viewer.caller, _kind(kind), name, tenant=tenant or None)
    item = InboxItem(view.question)
    proposal, preview, preview_problem = _read_plan(request, viewer, view, is_unfolded=is_unfolded)
    digest = preview.preview_digest if preview else view.request.request_digest if view.request else ""
    own = get_services(request).inbox.find_own_request_refusal(viewer.caller, view.question)
    why_not = _reason_not_to_approve(view, preview, preview_problem)
    outcome = find_outcome(request, viewer, view)
    before, after = _neighbours(request, viewer, item)
    return page(
        request,
        "question.html",
        status_of(problem) if problem else 200,
        here="/inbox",
        item=item,
        held_request=view.request,
        goal=view.goal,
        answers=find_answers(view.goal.language_tag) if view.goal else None,
        proposal=proposal,
        preview=preview,
        preview_problem=preview_problem,
        plan_text=_read_text(request, viewer, view, preview),
        is_not_stored=isinstance(preview_problem, PreviewNotStoredError),
        picture=_draw_plan(request, viewer, view) if preview else None,
        digest=digest,
        risk=preview.document.risk if preview else view.question.risk,
        own=own,
        can_approve=not why_not,
        why_not=why_not,
        can_withdraw=_can_withdraw(viewer, view),
        outcome=outcome,
        next_step_text=describe_next_step(
            view, proposal, outcome, is_stale=preview is not None and bool(preview.changed_since)
        ),
        before=before,
        after=after,
        problem=problem,
    )


def _read_plan(
    request: Request, viewer: Viewer, view: QuestionView, *, is_unfolded: bool
) -> tuple[ProposalView | None, PreviewShown | None, RemitError | None]:
    """Return the stored preview until the plan is applied, after that only its state. Nothing is executed."""
    if view.question.kind != "plan":
        return None, None, None
    plans = get_services(request).plans
    proposal = plans.get(viewer.caller, view.question.id)
    if proposal.state not in {"PENDING", "APPROVED"}:
        return proposal, None, None
    try:
        stored = plans.read_preview(viewer.caller, view.question.id)
        return proposal, PreviewShown.of(stored, is_unfolded=is_unfolded), None
    except RemitError as problem:  # the request can still be denied
        return proposal, None, problem


def _read_text(
    request: Request, viewer: Viewer, view: QuestionView, preview: PreviewShown | None
) -> AgentPlanPreview | None:
    """Return what the text of a pending plan says if there is no preview to show."""
    if view.question.kind != "plan" or preview is not None:
        return None
    return get_services(request).plans.read_text(viewer.caller, view.question.id)


def _draw_plan(request: Request, viewer: Viewer, view: QuestionView) -> Graph | None:
    """Draw the plan if one action waits for another. Otherwise the list of files shows the same."""
    steps = get_services(request).plans.list_actions(viewer.caller, view.question.id)
    return draw_steps(steps, {}) if any(step.depends_on for step in steps) else None


def _reason_not_to_approve(view: QuestionView, preview: PreviewShown | None, problem: RemitError | None) -> str:
    """Return why the request cannot be approved now. The services decide; this only disables the button."""
    if isinstance(problem, PreviewNotStoredError):
        return "The effect of this plan is not known yet. Its preview must be computed before it can be approved."
    if problem is not None:
        return "The preview cannot be shown, so this plan cannot be approved now."
    if preview is not None and preview.changed_since and view.question.state == "PENDING":
        return "Something changed since this preview was computed. Compute the preview again first."
    if preview is not None and preview.document.cannot_be_approved:
        return "This plan would fail and change nothing. Deny it, and say in the reason what has to change."
    if view.goal is not None and view.goal.problem:
        return "The effect of this goal cannot be shown. Deny it, and let the user ask again."
    return ""


def _can_withdraw(viewer: Viewer, view: QuestionView) -> bool:
    """Whether the page offers to withdraw the plan: to its proposer, and to people whose role cannot deny it."""
    question = view.question
    if question.kind != "plan" or question.state != "PENDING" or not viewer.has_right("cancel"):
        return False
    return not viewer.has_right("decide") or is_same_person(question.asked_by, viewer.caller.person)


def _neighbours(request: Request, viewer: Viewer, item: InboxItem) -> tuple[str | None, str | None]:
    paths = [InboxItem(each).path for each in get_services(request).inbox.list_open(viewer.caller)]
    if item.path not in paths:
        return None, paths[0] if paths else None
    index = paths.index(item.path)
    return (paths[index - 1] if index else None), (paths[index + 1] if index + 1 < len(paths) else None)


def _decide(request: Request, viewer: Viewer, form: FormFields) -> str:
    """Send the decision to the services. Return the key of the notice for the next page."""
    services = get_services(request)
    kind, name, tenant = _kind(form.one("kind")), form.one("id"), form.given("tenant")
    if kind == "confirmation":
        decision = Decision.from_tree({"answer": form.one("answer"), "step": form.given("step")}, source="form")
        left = services.inbox.decide(viewer.caller, kind, name, decision, tenant=tenant)
        return "unclear" if left.state == "PENDING" else "answered"
    choice = form.one("decision")
    if choice not in {"approve", "deny"}:
        raise RefusedError(Reason.MALFORMED, "the form has neither an approval nor a denial", where="field decision")
    approved = choice == "approve"
    tree = {
        "approved": approved,
        "reason": form.given("reason"),
        "shown_digest": form.given("digest") if approved else None,
        "step": form.given("step"),
    }
    decision = Decision.from_tree(tree, source="form")
    if kind == "plan":
        with services.plans.recording_decision(viewer.caller, name, approved=approved):
            if approved:
                _require_unseen_acknowledged(request, viewer, form)
            named = _allowed(request, viewer, form) if approved else dict.fromkeys(ALLOWANCES, ())
            services.plans.decide(
                viewer.caller,
                name,
                approved=approved,
                preview_digest=decision.shown_digest,
                allow=Approvals.from_tree(named, source="form"),
                reason=decision.reason,
            )
    else:
        services.inbox.decide(viewer.caller, kind, name, decision, tenant=tenant)
    return "approved" if approved else "denied"


def _require_unseen_acknowledged(request: Request, viewer: Viewer, form: FormFields) -> None:
    """Require that the approver of a partly shown preview has ticked the box about the rest.

    What the page left out is computed here, because a form could lack the field. The services check that the files
    are still as they were shown.
    """
    preview = get_services(request).plans.read_preview(viewer.caller, form.one("id"))
    shown = PreviewShown.of(preview, is_unfolded=_is_unfolded(form))
    if shown.unseen and form.one("unseen") != form.one("digest"):
        raise RefusedError(
            Reason.MALFORMED,
            f"the page does not show all of the diffs ({shown.unseen:,} more), and the box for that is not ticked",
            where="field unseen",
            next_step="Read the other lines, or tick the box above the decision.",
        )
    if shown.folded and form.one("folded") != form.one("digest"):
        lines, files = counted(shown.folded_lines, "line"), counted(len(shown.folded), "file")
        verb = "is" if shown.folded_lines == 1 else "are"
        raise RefusedError(
            Reason.MALFORMED,
            f"{lines} in {files} {verb} folded on the page, and the box for that is not ticked; nothing was approved",
            where="field folded",
            next_step="Unfold all files and read them, or tick the box above the decision.",
        )


def _is_unfolded(form: FormFields) -> bool:
    """Whether the form is of a page that showed every file unfolded. Without the field, it is not."""
    return form.one("files") == ALL_FILES


def _allowed(request: Request, viewer: Viewer, form: FormFields) -> dict[str, Sequence[str]]:
    """Return what was ticked, each by its name. One box for a long list means everything that the preview named. The
    digest binds the approval to that preview.
    """
    named: dict[str, Sequence[str]] = {each: form.many(each) for each in ALLOWANCES}
    if whole := [each for each in ALLOWANCES if form.one(f"{each}_all") == "yes"]:
        needs = get_services(request).plans.read_preview(viewer.caller, form.one("id")).document.needs
        named |= {each: getattr(needs, each) for each in whole}
    return named


def _kind(text: str) -> QuestionKind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise _no_question("kind")


def _no_question(where: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING, "there is no such approval request", where=where, next_step="Open the inbox."
    )
