"""The browser door: one action under a capability token, done in a page, answered with a result.

Whatever the action causes the page to send has to pass the session's gate; a request that changes something travels the
road by itself (`remit.browser.request_operation`), and the action waits for it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from remit.approvals.service import ApprovalRequest, ApprovalService
from remit.authority.capability_token import claimed_agent, require_in_time
from remit.browser.actions import SUBMITTING, ActionTarget, require_unchanged, vars_of
from remit.browser.approval import OnWaiting, ask
from remit.browser.checkpoint import (
    AuditData,
    BegunAction,
    audit_event,
    masked_action,
    parse_begun_action,
    render_begun_action,
    render_element,
    render_summary,
)
from remit.browser.held_requests import RunningAction, place_of
from remit.browser.model.masking import cut, host_of
from remit.browser.policy import browser_error, browser_reason, decide_browser, require_host
from remit.browser.recovery import (
    EarlierAction,
    RequestFate,
    beside_earlier,
    beside_what_came_late,
    beside_what_was_sent,
    tell_cut_short,
)
from remit.browser.request_preview import preview_typing
from remit.browser.retry import Retries
from remit.browser.types import BrowserRequest, BrowserWorld, GrantedAction, InterruptedAction, Made, TokenVerifier
from remit.contracts.browser.browser import Action, ActionResult, Approval
from remit.core.canonical import digest, digest_bytes
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.execution.decision import PolicyDecision
from remit.execution.engine import Note, Notes, Operation, Preview
from remit.execution.journal import RequestIds
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.masking import mask_text

_CLICKING = frozenset({"click", *SUBMITTING})


@dataclass(frozen=True)
class BrowserOperation(Operation[BrowserRequest, GrantedAction, BegunAction, Made, ActionResult]):
    """`world` is asked for when an action gets that far: what is refused before starts no browser."""

    tokens: TokenVerifier
    approvals: ApprovalService
    world: Callable[[], BrowserWorld]
    retries: Retries
    currency: str
    clock: Clock
    on_waiting: OnWaiting = lambda _: None
    require_only: Callable[[], None] = lambda: None
    """Refuses if the same action is at work under another token."""
    requests_of: Callable[[str], list[RequestFate]] = lambda _: []
    """What the ledger knows of the requests that an action caused."""
    earlier: Callable[[str, str, str], EarlierAction | None] = lambda _action_id, _digest, _jti: None
    """What the ledger knows of an action that was begun before, under that very token."""
    name: str = field(default="browser", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> BrowserRequest:
        action, token = raw
        parsed = Action.parse(action)
        text = token.decode("utf-8", "replace")
        # With the agent in it: what one agent was told is not handed to another who knows what he asked for.
        return BrowserRequest(parsed, text, digest({"action": parsed.digest(), "agent": claimed_agent(text)}))

    def trace(self, request: BrowserRequest) -> RequestIds:
        action = request.action
        return RequestIds(
            tenant_id=DEFAULT_TENANT,
            correlation_id=action.action_id,
            scope=self.name,
            key=action.action_id,
            request_digest=request.digest,
            capability_id=f"browser.{action.type}",
            authority=lambda: digest_bytes(request.token.encode()),
        )

    def verify_authority(self, request: BrowserRequest, now: datetime) -> GrantedAction:
        try:
            token = self.tokens.verify(request.token, now)
        except RefusedError as problem:
            raise self._beside_earlier(request, problem) from None
        request.verified[:] = [token]
        request.seen.agent_id, request.seen.jti = token.agent_id, token.jti
        self.require_only()
        return GrantedAction(request, token)

    def _beside_earlier(self, request: BrowserRequest, problem: RefusedError) -> RefusedError:
        """A token that is over gives no right any more, but it may hear what became of what it was used for."""
        if problem.reason not in {Reason.EXPIRED, Reason.REVOKED}:
            return problem
        jti = self.tokens.signed_jti(request.token)
        earlier = self.earlier(request.action.action_id, request.digest, jti) if jti is not None else None
        if earlier is None:
            return problem
        request.seen.sent = earlier.sent
        return beside_earlier(problem, earlier)

    def decide(self, request: BrowserRequest) -> PolicyDecision:
        if not request.verified:  # recalled after a crash: nothing will be done, only told
            return PolicyDecision(("it was begun under a token, and is only brought to an end",))
        return decide_browser(request.verified[0], request.action, self.currency)

    def preview(self, granted: GrantedAction) -> Preview:
        action = granted.action
        if not granted.tabs:
            granted.tabs.append(self.world().enter(granted.token, action))
        tab = granted.tabs[0]
        granted.request.seen.secrets = tab.secrets
        looked = self.retries.run(lambda: self.world().look(tab, action))
        granted.looked[:] = [looked]
        granted.request.seen.before = looked.content_hash
        _require_form_at_home(granted, looked)
        summary = mask_text(render_summary(action, looked.url, looked.described, tab.secrets))
        met = {"action": granted.request.digest, "url": looked.url, "element": repr(looked.described)}
        return Preview(cut(summary), digest(met))

    def consent(self, granted: GrantedAction, preview: Preview, now: datetime) -> str:
        """The token's, for what only looks or may be judged by its requests. A password is a person's to give."""
        described = granted.looked[0].described
        if granted.action.type != "type" or described is None or not described.is_password:
            return f"token {granted.token.jti}"
        looked, tab = granted.looked[0], granted.tabs[0]
        question = ApprovalRequest(
            agent_id=granted.token.agent_id,
            token_jti=granted.token.jti,
            action_id=granted.action.action_id,
            action_digest=granted.request.digest,
            request_digest=preview.digest,
            preview=preview_typing(granted.action, looked.url, render_element(described), tab.secrets),
            screenshot=self.world().picture_of(tab, looked),
            not_after=granted.token.expires_at,
        )

        def waiting(approval: Approval) -> None:
            tab.asking = approval.approval_id
            self.on_waiting(approval)

        try:
            approval = ask(self.approvals, question, waiting, lambda: tab.is_closed)
        finally:
            tab.asking = None
        granted.approvals[:] = [approval]
        return f"approval {approval.approval_id} by {approval.decided_by}"

    def checkpoint(self, granted: GrantedAction, preview: Preview) -> str:
        begun = BegunAction(
            masked_action(granted.action, granted.request.seen.secrets),
            granted.request.digest,
            granted.token.agent_id,
            granted.token.jti,
            granted.request.seen.before,
        )
        return render_begun_action(begun)

    def release(self, granted: GrantedAction) -> None:
        while granted.tabs:
            granted.tabs.pop().turn.release()

    def require_still_valid(self, granted: GrantedAction, now: datetime) -> None:
        require_in_time(granted.token, now)

    def consume_authority(self, granted: GrantedAction, batch: Batch, now: datetime) -> None:
        self.tokens.use(batch.store, granted.token, granted.action.action_id, now)
        for approval in granted.approvals:
            self.approvals.use(
                batch,
                approval.approval_id,
                request_digest=approval.request_digest,
                action_digest=granted.request.digest,
                token_jti=granted.token.jti,
            )

    def recheck_authority(self, granted: GrantedAction, batch: Batch, now: datetime) -> None:
        self.tokens.require_still_valid(batch.store, granted.token, now)

    def load_checkpoint(self, checkpoint: str) -> tuple[BrowserRequest, BegunAction]:
        begun = parse_begun_action(checkpoint)
        return BrowserRequest(begun.action, "", begun.digest, AuditData(begun.agent_id, begun.jti, begun.before)), begun

    def effect(self, granted: GrantedAction, begun: BegunAction, note: Note) -> Made:
        tab, looked, action = granted.tabs[0], granted.looked[0], granted.action
        if granted.approvals:
            require_unchanged(looked, self.world().look(tab, action), tab.secrets)
        submits = looked.submits or action.type in SUBMITTING
        form = looked.described.form if looked.described is not None else None
        place = place_of(form.action) if submits and form is not None else ""
        what = f"{action.type} on {render_element(looked.described, tab.secrets)}" if looked.described else ""
        running = RunningAction(action, granted.request.digest, what=what, submits=submits, form_place=place)
        self.world().begin(tab, looked, running)

        def is_safe(problem: RemitError) -> bool:
            """Nothing was sent, no person was asked; and the page has received nothing of the action."""
            if running.is_pressed or running.held or running.may_have_sent:
                return False
            return action.type not in _CLICKING or problem.reason is Reason.ELEMENT_MISSING

        seen = granted.request.seen
        try:
            made = self.retries.run(lambda: self.world().act(tab, looked, running, granted.token), is_safe)
        except RemitError as problem:
            seen.after = self.world().hash_of(tab)
            raise beside_what_was_sent(problem, running.sent) from None
        finally:
            running.finished = True
            seen.sent = running.sent
            seen.turned_away = [vars_of(each) for each in running.turned_away]
        seen.after = made.content_hash
        for approval in granted.approvals:  # one at most
            told = {"approval_id": approval.approval_id, "approved_by": approval.decided_by, "reason": approval.reason}
            made.output["approval"] = told
        if made.picture is not None:
            made.output["screenshot"] = {
                "path": self.world().keep(made.picture),
                "sha256": sha256(made.picture).hexdigest(),
            }
        return made

    def recover_effect(self, begun: BegunAction, notes: Notes, note: Note) -> Made | None:
        action_id = begun.action.action_id
        return tell_cut_short(action_id, self.requests_of(action_id))

    def undo(self, begun: BegunAction, notes: Notes, note: Note) -> None:
        """What was sent cannot be called back; each request was a person's to allow."""

    def verify_effect(self, begun: BegunAction, made: Made) -> None:
        """The hashes before and after are the evidence; a page is as it is."""

    def succeed(self, request: BrowserRequest, begun: BegunAction, made: Made) -> ActionResult:
        if isinstance(made, InterruptedAction):
            request.seen.sent = made.sent
            return self.fail(request, made.problem, begun)
        return ActionResult(
            action_id=request.action.action_id,
            success=True,
            output=made.output,
            sent=request.seen.sent,
            contentHashBefore=begun.before,
            contentHashAfter=made.content_hash,
        )

    def fail(self, request: BrowserRequest, problem: RemitError, begun: BegunAction | None = None) -> ActionResult:
        named = request.seen.secrets.selector(request.action.selector or request.action.ref or "")
        return ActionResult(
            action_id=request.action.action_id,
            success=False,
            reason=browser_reason(problem) or "failed",
            error=browser_error(problem, selector=named),
            sent=request.seen.sent,
            contentHashBefore=request.seen.before,
            contentHashAfter=request.seen.after,
        )

    def store_outcome(self, outcome: ActionResult) -> str:
        """In the order in which it is told the first time, so that it reads the same the second time."""
        try:
            return outcome.model_dump_json(by_alias=True)
        except ValueError:  # half a character, such as a page may have in its title: said in our own words
            return outcome.canonical().decode()

    def show_outcome(self, outcome: ActionResult, stored: str) -> Mapping[str, Any]:
        """Of what a page says, its digest: the ledger is for ever, and small."""
        shown = json.loads(stored)
        snapshot = (shown["output"] or {}).pop("snapshot", None)
        if snapshot is not None:
            shown["output"]["snapshot_digest"] = digest(snapshot)
        return {"outcome": shown}

    def load_outcome(self, stored: str, recorded_at: str) -> ActionResult:
        """With what was sent for the action since then, by requests that came when it had ended."""
        result = ActionResult.parse(stored.encode(), source="stored result")
        pending = [each for each in self.approvals.listed("PENDING") if each.action_id == result.action_id]
        return beside_what_came_late(result, self.requests_of(result.action_id), pending)

    def extra_entries(self, request: BrowserRequest, outcome: ActionResult) -> Sequence[NewEntry]:
        return (audit_event(request.action, request.seen, outcome, self.clock()),)


def _require_form_at_home(granted: GrantedAction, looked: ActionTarget) -> None:
    """A form that leads to a host which the token does not name is not even pressed."""
    form = looked.described.form if looked.described is not None else None
    leads_on = looked.submits or granted.action.type in SUBMITTING
    if form is not None and leads_on and form.action.startswith(("http://", "https://")):
        require_host(granted.token.constraints, host_of(form.action))


def require_text(token: str) -> bytes:
    """A token as it was handed over. One that is no text is no token."""
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise RefusedError(Reason.AUTHORITY_MALFORMED, "a token is plain text", where="token") from None
