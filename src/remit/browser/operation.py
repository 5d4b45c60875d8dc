"""The browser operation: one action under a capability token, performed in a page, with a result.

Every request that the page sends because of the action has to pass the session's gate. A request that changes something
is an operation of its own (`remit.browser.request_operation`), and the action waits for it.
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
    """The engine's steps for one action. `browser` is called only in the preview, so an action that is refused before
    starts no browser.
    """

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
    """Reads the requests that an action caused from the ledger."""
    find_earlier: Callable[[str, str, str], EarlierAction | None] = lambda _action_id, _digest, _jti: None
    """Finds the same action in the ledger if it was begun before, under exactly this token."""
    name: str = field(default="browser", init=False)

    def parse(self, raw: tuple[bytes, ...]) -> BrowserRequest:
        action, token = raw
        parsed = Action.parse(action)
        text = token.decode("utf-8", "replace")
        # The digest includes the agent, so another agent that knows the action does not get its stored result.
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
        """Add the outcome of an earlier call to the refusal. An expired or revoked token gives no rights, but its
        holder may learn the outcome of the action for which it was used.
        """
        if problem.reason not in {Reason.EXPIRED, Reason.REVOKED}:
            return problem
        jti = self.tokens.signed_jti(request.token)
        earlier = self.find_earlier(request.action.action_id, request.digest, jti) if jti is not None else None
        if earlier is None:
            return problem
        request.audit.sent = earlier.sent
        return with_earlier_outcome(problem, earlier)

    def decide(self, request: BrowserRequest) -> PolicyDecision:
        if not request.verified:  # recovered after a crash: only the outcome is recorded
            return PolicyDecision(("it was begun under a token, and only its outcome is recorded now",))
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
        """Return the consent. For most actions it is the token's: they only read, or their requests are judged. Typing
        a password needs a person's approval.
        """
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
            """Whether nothing was sent, no person was asked, and the page has received nothing of the action."""
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
        """Do nothing. A sent request cannot be undone; a person approved each one."""

    def verify_effect(self, checkpoint: ActionCheckpoint, made: ActionEffect) -> None:
        """Do nothing. The hashes before and after are the evidence, and there is no expected state of a page."""

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
        """Store the fields in the order of the first answer, so that a repeated answer is the same text."""
        try:
            return outcome.model_dump_json(by_alias=True)
        except ValueError:  # half a surrogate pair, which a page may have in its title: the canonical form replaces it
            return outcome.canonical().decode()

    def show_outcome(self, outcome: ActionResult, stored: str) -> Mapping[str, Any]:
        """Return the outcome for the ledger, with the digest of a snapshot instead of the snapshot. Ledger entries stay
        permanently, so they are small.
        """
        shown = json.loads(stored)
        snapshot = (shown["output"] or {}).pop("snapshot", None)
        if snapshot is not None:
            shown["output"]["snapshot_digest"] = digest(snapshot)
        return {"outcome": shown}

    def load_outcome(self, stored: str, recorded_at: str) -> ActionResult:
        """Return the stored result, completed with requests that came after the action had ended."""
        result = ActionResult.parse(stored.encode(), source="stored result")
        pending = [each for each in self.approvals.listed("PENDING") if each.action_id == result.action_id]
        return with_late_requests(result, self.read_requests(result.action_id), pending)

    def extra_entries(self, request: BrowserRequest, outcome: ActionResult) -> Sequence[NewEntry]:
        return (build_audit_entry(request.action, request.audit, outcome, self.clock()),)


def _require_allowed_form(granted: GrantedAction, target: ActionTarget) -> None:
    """Refuse before the action if the form leads to a host that the token does not name."""
    form = target.description.form if target.description is not None else None
    follows_form = target.submits or granted.action.type in SUBMITTING
    if form is not None and follows_form and form.action.startswith(("http://", "https://")):
        require_host(granted.token.constraints, host_of(form.action))


def encode_token(token: str) -> bytes:
    """Return the bytes of a token. Refuses text that UTF-8 cannot encode."""
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise RefusedError(Reason.AUTHORITY_MALFORMED, "a token is plain text", where="token") from None
