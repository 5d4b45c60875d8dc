"""Browser actions at the desk: for agents, in the browser that outlives this process.

A request that changes something is held there until a person has answered. Nobody's thread is held for that: whoever
waits is told that a person has to answer, and the same action again, or a look at it by its id, tells what came of it.
"""

import time
from typing import Any, Final, NamedTuple

from remit.browser.checkpoint import parse_begun_action
from remit.browser_daemon.client import ActionReply, HostClient
from remit.browser_daemon.client import PendingApproval as Asked
from remit.browser_daemon.socket_path import HostPlace
from remit.contracts.browser.browser import Action, ActionResult, Approval
from remit.contracts.services.common import BrowseAnswer, BrowserStatus, Waiting
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import AgentCaller, Caller
from remit.identity.person import AGENT_VARIABLES
from remit.services.base.context import ServiceContext, require_wait
from remit.services.base.jobs import Job
from remit.services.base.ownership import not_found_error
from remit.services.base.permissions import Right, require
from remit.services.base.screenshots import read_picture
from remit.store.claims import ClaimCompleted, ClaimHeld

LOOK_SECONDS: Final = 0.05


class _Told(NamedTuple):
    """How it ended, or the question that it waits for."""

    answered: ActionReply | None
    asked: Asked | None


class BrowserDesk:
    def __init__(self, room: ServiceContext) -> None:
        self._room = room
        workspace = room.workspace
        # The host outlives this process, and must not act as anybody.
        environ = {name: value for name, value in workspace.environ.items() if name not in AGENT_VARIABLES}
        self._client = HostClient(workspace.root, HostPlace.of(workspace.state), environ)

    def act(self, caller: Caller, action: bytes, wait: float = 0.0) -> BrowseAnswer:
        """One action under the caller's own token. What it may do, the road decides by that token."""
        require(caller, Right.BROWSE)
        require_wait(wait)
        if not isinstance(caller, AgentCaller):  # the table says so already; nothing rests on it alone
            raise RefusedError(Reason.PERMISSION_DENIED, "the browser is for agents with a token", where="the caller")
        parsed = Action.parse(action, source="action")
        deadline = time.monotonic() + wait
        while True:
            job = self._begin(caller, parsed, action)
            if not job.wait(deadline - time.monotonic()):
                return BrowseAnswer(state="running", action_id=parsed.action_id)
            told = job.result()
            if told.answered is not None:
                return _done(told.answered)
            if told.asked is None or not told.asked.is_open:
                return BrowseAnswer(state="running", action_id=parsed.action_id)
            left = deadline - time.monotonic()
            if left <= 0 or self._is_unanswered(told.asked.approval_id, left):
                return BrowseAnswer(state="waiting", action_id=parsed.action_id, waiting=self._asked(told.asked))

    def get(self, caller: Caller, action_id: str, wait: float = 0.0) -> BrowseAnswer:
        """What became of an action: its recorded result, or what it waits for. An agent sees its own."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        deadline = time.monotonic() + wait
        missing = not_found_error("action", action_id)
        job = self._room.work.about(f"browser:{action_id}")
        mine = job if job is not None and job.owner == caller.id else None
        if mine is not None:
            mine.wait(wait)
        found = self._room.found("browser", action_id)
        if found is None:  # refused, so that nothing of it is kept: then it is told as long as it is remembered here
            if mine is None:
                raise missing
            told = None if mine.is_running else mine.result().answered
            return _done(told) if told is not None else BrowseAnswer(state="running", action_id=action_id)
        self._require_own(caller, found, missing)
        while isinstance(found, ClaimHeld):
            open_one = self._open_question(action_id)
            left = deadline - time.monotonic()
            if open_one is not None and (left <= 0 or self._is_unanswered(open_one.approval_id, left)):
                return BrowseAnswer(state="waiting", action_id=action_id, waiting=self._question(open_one))
            if open_one is None:
                if left <= 0 or self._room.work.is_ending:
                    return BrowseAnswer(state="running", action_id=action_id)
                time.sleep(min(left, LOOK_SECONDS))  # it ends in another process, and nobody rings for that
            found = self._room.found("browser", action_id) or found
        return BrowseAnswer(state="done", action_id=action_id, stored=True, result=self._result(found))

    def picture(self, caller: Caller, action_id: str) -> bytes:
        """The picture of a screenshot, as PNG."""
        answer = self.get(caller, action_id)
        output: Any = answer.result.output if answer.result is not None else None
        told = output.get("screenshot") if isinstance(output, dict) else None
        kept_at = told.get("path") if isinstance(told, dict) else None
        return read_picture(self._room.workspace.state, kept_at, f"action {action_id}")

    def status(self, caller: Caller) -> BrowserStatus:
        require(caller, Right.SEE_OWN)
        told = self._client.status()
        return BrowserStatus(running=told is not None, sessions=int(told["sessions"]) if told else 0)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, caller: AgentCaller, parsed: Action, action: bytes) -> Job[_Told]:
        asked: list[Asked] = []

        def browse(_job: Job[_Told]) -> _Told:
            def hear(question: Asked) -> bool:
                asked.append(question)
                return False

            answered = self._client.browse(action, caller.text, on_waiting=hear)
            return _Told(answered, asked[-1] if asked else None)

        # By the token too: whoever has another may be answered otherwise.
        key = f"browser:{parsed.digest()}:{digest_bytes(caller.text.encode())}"
        return self._room.work.begin(key, browse, subject=f"browser:{parsed.action_id}", owner=caller.id)

    def _is_unanswered(self, approval_id: str, seconds: float) -> bool:
        """Still, after so long a wait."""
        work = self._room.work
        found = self._room.workspace.approvals.wait(approval_id, seconds, lambda: work.is_ending)
        return found.state == "PENDING"

    def _require_own(self, caller: Caller, found: ClaimCompleted | ClaimHeld, missing: RefusedError) -> None:
        if isinstance(caller, AgentCaller) and parse_begun_action(found.checkpoint).agent_id != caller.token.agent_id:
            raise missing

    def _result(self, done: ClaimCompleted) -> ActionResult:
        return ActionResult.parse(self._room.outcome(done).encode(), source="a stored result")

    def _open_question(self, action_id: str) -> Approval | None:
        waiting = self._room.workspace.approvals.listed("PENDING")
        return next((each for each in waiting if each.action_id == action_id), None)

    def _asked(self, asked: Asked) -> Waiting:
        return self._waiting(asked.approval_id, asked.what, asked.expires)

    def _question(self, approval: Approval) -> Waiting:
        return self._waiting(approval.approval_id, approval.preview.estimated_effect, approval.expires)

    def _waiting(self, approval_id: str, what: str, expires: str) -> Waiting:
        link = self._room.link("inbox", "request", approval_id)
        return Waiting(kind="request", id=approval_id, tenant=DEFAULT_TENANT, what=what, expires=expires, link=link)


def _done(answered: ActionReply) -> BrowseAnswer:
    result = answered.result
    return BrowseAnswer(
        state="done", action_id=result.action_id, result=result, stored=answered.stored, refused=answered.refused
    )
