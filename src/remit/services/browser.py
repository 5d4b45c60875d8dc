"""The service for browser actions of agents, in the browser process that outlives this process.

The browser process holds a request that changes something until a person approves or denies it. No thread here waits
for that. The caller gets an answer that names the approval request. To see the outcome later, the caller sends the same
action again, or reads it by its id.
"""

import time
from typing import Any, Final, NamedTuple

from remit.browser.checkpoint import parse_action_checkpoint
from remit.browser_daemon.client import ActionReply, HostClient, PendingApproval
from remit.browser_daemon.socket_path import DaemonFolder
from remit.contracts.browser.browser import Action, ActionResult, Approval
from remit.contracts.services.common import BrowseAnswer, BrowserStatus, Waiting
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.execution.refusals import about_action
from remit.identity.callers import AgentCaller, Caller
from remit.identity.person import AGENT_VARIABLES
from remit.services.base.context import ServiceContext, require_wait
from remit.services.base.jobs import Job
from remit.services.base.ownership import not_found_error
from remit.services.base.permissions import Right, require
from remit.services.base.screenshots import read_picture
from remit.store.claims import ClaimCompleted, ClaimHeld

POLL_SECONDS: Final = 0.05


class _BrowseResult(NamedTuple):
    """The reply to an action, or the approval request that it waits for."""

    reply: ActionReply | None
    pending: PendingApproval | None


class BrowserService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        workspace = context.workspace
        # The browser process outlives this process. It must not act as the agent that started it.
        environ = {name: value for name, value in workspace.environ.items() if name not in AGENT_VARIABLES}
        self._client = HostClient(workspace.root, DaemonFolder.of(workspace.state), environ)

    def act(self, caller: Caller, action: bytes, wait: float = 0.0) -> BrowseAnswer:
        """Carry out one action with the caller's token. The execution engine checks the action against the token."""
        with self._context.workspace.refusals.recording("browse", caller.id, about_action(action)):
            return self._act(caller, action, wait)

    def _act(self, caller: Caller, action: bytes, wait: float) -> BrowseAnswer:
        require(caller, Right.BROWSE)
        require_wait(wait)
        if not isinstance(caller, AgentCaller):  # a second check, so that not everything depends on the table of rights
            raise RefusedError(
                Reason.PERMISSION_DENIED, "only an agent with a token can use the browser", where="the caller"
            )
        parsed = Action.parse(action, source="action")
        deadline = time.monotonic() + wait
        while True:
            job = self._start(caller, parsed, action)
            if not job.wait(deadline - time.monotonic()):
                return BrowseAnswer(state="running", action_id=parsed.action_id)
            result = job.result()
            if result.reply is not None:
                return _build_done_answer(result.reply)
            if result.pending is None or not result.pending.is_open:
                return BrowseAnswer(state="running", action_id=parsed.action_id)
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self._is_still_pending(result.pending.approval_id, remaining):
                return BrowseAnswer(
                    state="waiting", action_id=parsed.action_id, waiting=self._describe_pending(result.pending)
                )

    def get(self, caller: Caller, action_id: str, wait: float = 0.0) -> BrowseAnswer:
        """Return the recorded result of an action, or what it waits for. An agent sees its own actions only."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        deadline = time.monotonic() + wait
        missing = not_found_error("action", action_id)
        job = self._context.jobs.find(f"browser:{action_id}")
        callers_job = job if job is not None and job.owner == caller.id else None
        if callers_job is not None:
            callers_job.wait(wait)
        found = self._context.find_claim("browser", action_id)
        if found is None:  # a refused action is not stored, but this process remembers it for a while
            if callers_job is None:
                raise missing
            result = None if callers_job.is_running else callers_job.result().reply
            return (
                _build_done_answer(result) if result is not None else BrowseAnswer(state="running", action_id=action_id)
            )
        self._require_owner(caller, found, missing)
        while isinstance(found, ClaimHeld):
            pending = self._find_pending_approval(action_id)
            remaining = deadline - time.monotonic()
            if pending is not None and (remaining <= 0 or self._is_still_pending(pending.approval_id, remaining)):
                return BrowseAnswer(state="waiting", action_id=action_id, waiting=self._describe_approval(pending))
            if pending is None:
                if remaining <= 0 or self._context.jobs.is_ending:
                    return BrowseAnswer(state="running", action_id=action_id)
                time.sleep(min(remaining, POLL_SECONDS))  # it ends in another process, which sends no signal for that
            found = self._context.find_claim("browser", action_id) or found
        return BrowseAnswer(state="done", action_id=action_id, stored=True, result=self._read_result(found))

    def read_picture(self, caller: Caller, action_id: str) -> bytes:
        """Return the picture of a screenshot, as PNG."""
        answer = self.get(caller, action_id)
        output: Any = answer.result.output if answer.result is not None else None
        result = output.get("screenshot") if isinstance(output, dict) else None
        stored_path = result.get("path") if isinstance(result, dict) else None
        return read_picture(self._context.workspace.state, stored_path, f"action {action_id}")

    def status(self, caller: Caller) -> BrowserStatus:
        require(caller, Right.SEE_OWN)
        result = self._client.status()
        return BrowserStatus(running=result is not None, sessions=int(result["sessions"]) if result else 0)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _start(self, caller: AgentCaller, parsed: Action, action: bytes) -> Job[_BrowseResult]:
        pending: list[PendingApproval] = []

        def browse(_job: Job[_BrowseResult]) -> _BrowseResult:
            def on_waiting(question: PendingApproval) -> bool:
                pending.append(question)
                return False

            reply = self._client.browse(action, caller.text, on_waiting=on_waiting)
            return _BrowseResult(reply, pending[-1] if pending else None)

        # The key includes the token, because the same action may be answered differently with another token.
        key = f"browser:{parsed.digest()}:{digest_bytes(caller.text.encode())}"
        return self._context.jobs.start(key, browse, subject=f"browser:{parsed.action_id}", owner=caller.id)

    def _is_still_pending(self, approval_id: str, seconds: float) -> bool:
        """Wait, at most so many seconds, and return whether the approval request is still pending."""
        work = self._context.jobs
        found = self._context.workspace.approvals.wait(approval_id, seconds, lambda: work.is_ending)
        return found.state == "PENDING"

    def _require_owner(self, caller: Caller, found: ClaimCompleted | ClaimHeld, missing: RefusedError) -> None:
        if (
            isinstance(caller, AgentCaller)
            and parse_action_checkpoint(found.checkpoint).agent_id != caller.token.agent_id
        ):
            raise missing

    def _read_result(self, done: ClaimCompleted) -> ActionResult:
        return ActionResult.parse(self._context.read_outcome(done).encode(), source="a stored result")

    def _find_pending_approval(self, action_id: str) -> Approval | None:
        waiting = self._context.workspace.approvals.listed("PENDING")
        return next((each for each in waiting if each.action_id == action_id), None)

    def _describe_pending(self, pending: PendingApproval) -> Waiting:
        return self._build_waiting(pending.approval_id, pending.what, pending.expires)

    def _describe_approval(self, approval: Approval) -> Waiting:
        return self._build_waiting(approval.approval_id, approval.preview.estimated_effect, approval.expires)

    def _build_waiting(self, approval_id: str, what: str, expires: str) -> Waiting:
        link = self._context.link("inbox", "request", approval_id)
        return Waiting(kind="request", id=approval_id, tenant=DEFAULT_TENANT, what=what, expires=expires, link=link)


def _build_done_answer(reply: ActionReply) -> BrowseAnswer:
    result = reply.result
    return BrowseAnswer(
        state="done", action_id=result.action_id, result=result, stored=reply.stored, refused=reply.refused
    )
