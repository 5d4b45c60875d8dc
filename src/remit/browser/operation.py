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
from remit.browser.actions import SUBMITTING, ActionTarget, render_turned_away, require_unchanged
from remit.browser.approval import OnWaiting, request_approval
from remit.browser.checkpoint import (
    ActionCheckpoint,
    AuditData,
    build_audit_entry,
    mask_action,
    parse_action_checkpoint,
    render_action_checkpoint,
    render_element,
    render_summary,
)
from remit.browser.held_requests import RunningAction, without_query
from remit.browser.model.masking import cut, host_of
from remit.browser.policy import browser_error, browser_reason, decide_browser, require_host
from remit.browser.recovery import (
    EarlierAction,
    RequestFate,
    build_interrupted,
    with_earlier_outcome,
    with_late_requests,
    with_sent_count,
)
from remit.browser.request_preview import preview_typing
from remit.browser.retry import Retries
from remit.browser.types import (
    ActionEffect,
    BrowserPort,
    BrowserRequest,
    GrantedAction,
    InterruptedAction,
    TokenVerifier,
)
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

_PRESSING = frozenset({"click", *SUBMITTING})


@dataclass(frozen=True)
class BrowserOperation(Operation[BrowserRequest, GrantedAction, ActionCheckpoint, ActionEffect, ActionResult]):
    """`browser` is called when an action gets that far: what is refused before starts no browser."""

    tokens: TokenVerifier
    approvals: ApprovalService
    browser: Callable[[], BrowserPort]
    retries: Retries
    currency: str
    clock: Clock
    on_waiting: OnWaiting = lambda _: None
    require_exclusive: Callable[[], None] = lambda: None
    """Refuses if the same action is at work under another token."""
    read_requests: Callable[[str], list[RequestFate]] = lambda _: []
    """What the ledger knows of the requests that an action caused."""
    find_earlier: Callable[[str, str, str], EarlierAction | None] = lambda _action_id, _digest, _jti: None
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
            raise self._add_earlier_outcome(request, problem) from None
        request.verified[:] = [token]
        request.audit.agent_id, request.audit.jti = token.agent_id, token.jti
        self.require_exclusive()
        return GrantedAction(request, token)

    def _add_earlier_outcome(self, request: BrowserRequest, problem: RefusedError) -> RefusedError:
        """A token that is over gives no right any more, but it may hear what became of what it was used for."""
        if problem.reason not in {Reason.EXPIRED, Reason.REVOKED}:
            return problem
        jti = self.tokens.signed_jti(request.token)
        earlier = self.find_earlier(request.action.action_id, request.digest, jti) if jti is not None else None
        if earlier is None:
            return problem
        request.audit.sent = earlier.sent
        return with_earlier_outcome(problem, earlier)

    def decide(self, request: BrowserRequest) -> PolicyDecision:
        if not request.verified:  # recalled after a crash: nothing will be done, only told
            return PolicyDecision(("it was begun under a token, and is only brought to an end",))
        return decide_browser(request.verified[0], request.action, self.currency)

    def preview(self, granted: GrantedAction) -> Preview:
        action = granted.action
        if not granted.tabs:
            granted.tabs.append(self.browser().acquire_tab(granted.token, action))
        tab = granted.tabs[0]
        granted.request.audit.secrets = tab.secrets
        target = self.retries.run(lambda: self.browser().inspect(tab, action))
        granted.targets[:] = [target]
        granted.request.audit.before = target.content_hash
        _require_allowed_form(granted, target)
        summary = mask_text(render_summary(action, target.url, target.description, tab.secrets))
        conditions = {"action": granted.request.digest, "url": target.url, "element": repr(target.description)}
        return Preview(cut(summary), digest(conditions))

    def consent(self, granted: GrantedAction, preview: Preview, now: datetime) -> str:
        """The token's, for what only looks or may be judged by its requests. A password is a person's to give."""
        description = granted.targets[0].description
        if granted.action.type != "type" or description is None or not description.is_password:
            return f"token {granted.token.jti}"
        target, tab = granted.targets[0], granted.tabs[0]
        request = ApprovalRequest(
            agent_id=granted.token.agent_id,
            token_jti=granted.token.jti,
            action_id=granted.action.action_id,
            action_digest=granted.request.digest,
            request_digest=preview.digest,
            preview=preview_typing(granted.action, target.url, render_element(description), tab.secrets),
            screenshot=self.browser().take_picture(tab, target),
            not_after=granted.token.expires_at,
        )

        def on_waiting(approval: Approval) -> None:
            tab.approval_id = approval.approval_id
            self.on_waiting(approval)

        try:
            approval = request_approval(self.approvals, request, on_waiting, lambda: tab.is_closed)
        finally:
            tab.approval_id = None
        granted.approvals[:] = [approval]
        return f"approval {approval.approval_id} by {approval.decided_by}"

    def checkpoint(self, granted: GrantedAction, preview: Preview) -> str:
        checkpoint = ActionCheckpoint(
            mask_action(granted.action, granted.request.audit.secrets),
            granted.request.digest,
            granted.token.agent_id,
            granted.token.jti,
            granted.request.audit.before,
        )
        return render_action_checkpoint(checkpoint)

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

    def load_checkpoint(self, text: str) -> tuple[BrowserRequest, ActionCheckpoint]:
        checkpoint = parse_action_checkpoint(text)
        return BrowserRequest(
            checkpoint.action, "", checkpoint.digest, AuditData(checkpoint.agent_id, checkpoint.jti, checkpoint.before)
        ), checkpoint

    def effect(self, granted: GrantedAction, checkpoint: ActionCheckpoint, note: Note) -> ActionEffect:
        tab, target, action = granted.tabs[0], granted.targets[0], granted.action
        if granted.approvals:
            require_unchanged(target, self.browser().inspect(tab, action), tab.secrets)
        submits = target.submits or action.type in SUBMITTING
        form = target.description.form if target.description is not None else None
        form_address = without_query(form.action) if submits and form is not None else ""
        what = f"{action.type} on {render_element(target.description, tab.secrets)}" if target.description else ""
        running = RunningAction(action, granted.request.digest, what=what, submits=submits, form_address=form_address)
        self.browser().begin_action(tab, target, running)

        def is_safe(problem: RemitError) -> bool:
            """Nothing was sent, no person was asked; and the page has received nothing of the action."""
            if running.is_pressed or running.held or running.may_have_sent:
                return False
            return action.type not in _PRESSING or problem.reason is Reason.ELEMENT_MISSING

        audit = granted.request.audit
        try:
            made = self.retries.run(lambda: self.browser().perform(tab, target, running, granted.token), is_safe)
        except RemitError as problem:
            audit.after = self.browser().read_hash(tab)
            raise with_sent_count(problem, running.sent) from None
        finally:
            running.finished = True
            audit.sent = running.sent
            audit.turned_away = [render_turned_away(each) for each in running.turned_away]
        audit.after = made.content_hash
        for approval in granted.approvals:  # one at most
            entry = {"approval_id": approval.approval_id, "approved_by": approval.decided_by, "reason": approval.reason}
            made.output["approval"] = entry
        if made.picture is not None:
            made.output["screenshot"] = {
                "path": self.browser().save_picture(made.picture),
                "sha256": sha256(made.picture).hexdigest(),
            }
        return made

    def recover_effect(self, checkpoint: ActionCheckpoint, notes: Notes, note: Note) -> ActionEffect | None:
        action_id = checkpoint.action.action_id
        return build_interrupted(action_id, self.read_requests(action_id))

    def undo(self, checkpoint: ActionCheckpoint, notes: Notes, note: Note) -> None:
        """What was sent cannot be called back; each request was a person's to allow."""

    def verify_effect(self, checkpoint: ActionCheckpoint, made: ActionEffect) -> None:
        """The hashes before and after are the evidence; a page is as it is."""

    def succeed(self, request: BrowserRequest, checkpoint: ActionCheckpoint, made: ActionEffect) -> ActionResult:
        if isinstance(made, InterruptedAction):
            request.audit.sent = made.sent
            return self.fail(request, made.problem, checkpoint)
        return ActionResult(
            action_id=request.action.action_id,
            success=True,
            output=made.output,
            sent=request.audit.sent,
            contentHashBefore=checkpoint.before,
            contentHashAfter=made.content_hash,
        )

    def fail(
        self, request: BrowserRequest, problem: RemitError, checkpoint: ActionCheckpoint | None = None
    ) -> ActionResult:
        selector = request.audit.secrets.mask_selector(request.action.selector or request.action.ref or "")
        return ActionResult(
            action_id=request.action.action_id,
            success=False,
            reason=browser_reason(problem) or "failed",
            error=browser_error(problem, selector=selector),
            sent=request.audit.sent,
            contentHashBefore=request.audit.before,
            contentHashAfter=request.audit.after,
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
        return with_late_requests(result, self.read_requests(result.action_id), pending)

    def extra_entries(self, request: BrowserRequest, outcome: ActionResult) -> Sequence[NewEntry]:
        return (build_audit_entry(request.action, request.audit, outcome, self.clock()),)


def _require_allowed_form(granted: GrantedAction, target: ActionTarget) -> None:
    """A form that leads to a host which the token does not name is not even pressed."""
    form = target.description.form if target.description is not None else None
    follows_form = target.submits or granted.action.type in SUBMITTING
    if form is not None and follows_form and form.action.startswith(("http://", "https://")):
        require_host(granted.token.constraints, host_of(form.action))


def encode_token(token: str) -> bytes:
    """A token as it was handed over. One that is no text is no token."""
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise RefusedError(Reason.AUTHORITY_MALFORMED, "a token is plain text", where="token") from None
