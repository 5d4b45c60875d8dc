"""Runs the browser action of a goal, under a token that is issued for this action alone.

The token is never stored. A process that takes over after a crash reads the recorded outcome of the browser operation,
and does not start an action again that had started. A person must approve a held request even so: the confirmation of
a goal does not approve a request. If an action exceeds the time limit of its simulation, its token is revoked and its
session is closed. Then nothing more is sent, and the approval request is void.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from remit.authority.capability_token import TokenRequest
from remit.browser.policy import CAPABILITY_OF
from remit.browser.service import BrowserActions
from remit.contracts.browser.browser import Action, ActionResult, TokenConstraints
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.core.canonical import canonical_bytes
from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ids import DEFAULT_TENANT, Clock, uuid7
from remit.execution.journal import Journal, RequestIds
from remit.goals.actions.results import browser_effect
from remit.goals.binding.binding import BrowserAction
from remit.goals.ports import BoundActionResult
from remit.identity.tokens import Tokens
from remit.ledger.writer import Ledger
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim

TOKEN_LIFE: Final = timedelta(minutes=15)
"""Long enough for a person to decide."""


class BrowserActionRunner:
    def __init__(
        self,
        browsing: Callable[[], BrowserActions],
        tokens: Callable[[], Tokens],
        ledger: Callable[[], Ledger],
        hosts: Path,
        clock: Clock,
    ) -> None:
        self._browsing = browsing
        self._tokens = tokens
        self._ledger = ledger
        self._hosts = hosts
        self._clock = clock

    def prepare(self, bound: BrowserAction, name: str, envelope: DispatchEnvelope) -> dict[str, Any]:
        action = Action.from_tree(bound.action(name), source="the simulation's action")
        constraints_tree = {"domains": list(bound.domains), "max_purchase": bound.max_purchase, "max_actions": 2}
        constraints = TokenConstraints.from_tree(constraints_tree, source="the simulation's domains")
        agent = f"goal:{envelope.tenant_id}/{envelope.user_id}"[:200]
        return {"type": "browser", "action": action.tree(), "constraints": constraints.tree(), "agent": agent}

    def has_started(self, prepared: Mapping[str, Any]) -> bool:
        return find_claim(self._ledger(), "browser", str(prepared["action"]["action_id"])) is not None

    def run(self, prepared: Mapping[str, Any], seconds: float) -> BoundActionResult:
        action = Action.from_tree(prepared["action"], source="the simulation's action")
        found = find_claim(self._ledger(), "browser", action.action_id)
        is_late = False
        if found is None:
            result, is_late = self._browse(action, prepared, seconds)
        else:
            result = self._outcome(action, found)
        payload: dict[str, Any] = {"type": "browser", "result": result.tree()}
        timed_out = is_late and not result.success
        refs = (f"browser/{action.action_id}",)
        return BoundActionResult(result.success, payload, refs, timed_out, effect=browser_effect(action, result))

    def _browse(self, action: Action, prepared: Mapping[str, Any], seconds: float) -> tuple[ActionResult, bool]:
        """Run the action in a session of its own.

        An action other than a navigation expects the open page that it names, so that page is opened first.

        Returns:
            The result, and whether the time limit was over before the action had ended.
        """
        kinds = dict.fromkeys(("navigate", action.type))
        token_request = TokenRequest(
            agent_id=str(prepared["agent"]),
            caps=tuple(CAPABILITY_OF[kind] for kind in kinds),
            constraints=TokenConstraints.from_tree(prepared["constraints"], source="the simulation's domains"),
            life=TOKEN_LIFE,
        )
        token = self._tokens().issue(token_request, actor=str(prepared["agent"]))
        jti = token.claims.jti
        with self._browsing().within(seconds, jti, lambda: self._revoke(jti)) as limit:
            if action.type != "navigate":
                # A new id each time: opening a page again is harmless, and its earlier session ended with its process.
                name = f"{action.action_id}-open-{uuid7(self._clock())}"
                opening = {"action_id": name, "type": "navigate", "target": action.target, "session": action.session}
                opened = self._browsing().browse(canonical_bytes(opening), token.text)
                if not opened.success:
                    return opened, limit.is_over
            result = self._browsing().browse(canonical_bytes(action.tree()), token.text)
        return result, limit.is_over

    def _revoke(self, jti: str) -> None:
        self._tokens().revoke(jti, actor="remit", reason="the step's time is over")

    def _outcome(self, action: Action, found: ClaimCompleted | ClaimHeld) -> ActionResult:
        """Return the recorded outcome of an action that had started. If it has none, recover the action first."""
        if isinstance(found, ClaimHeld):
            self._browsing().recover()
            recovered = find_claim(self._ledger(), "browser", action.action_id)
            if not isinstance(recovered, ClaimCompleted):
                raise EnvironmentFailureError(
                    Reason.IN_PROGRESS,
                    "the browser action is still running",
                    where=f"browser {action.action_id}",
                    next_step="Ask again in a moment. `remit approvals` lists the requests that wait for a person.",
                )
            found = recovered
        return ActionResult.parse(
            read_recorded_outcome(self._ledger(), self._hosts, found).encode(), source="stored result"
        )


def find_claim(ledger: Ledger, scope: str, key: str) -> ClaimCompleted | ClaimHeld | None:
    """Read the claim that the operation with this scope has for a key."""
    with ledger.store.reading_pooled() as connection:
        return read_claim(connection, ClaimKey(DEFAULT_TENANT, scope, key))


def read_recorded_outcome(ledger: Ledger, hosts: Path, done: ClaimCompleted) -> str:
    """Read a recorded outcome and verify it against the ledger. No authority is checked: it may have expired by now."""
    return _journal_of(ledger, hosts, done).verify_stored(done).text


def read_recorded_checkpoint(ledger: Ledger, hosts: Path, done: ClaimCompleted) -> str:
    """Read a recorded checkpoint and verify it against its intent. A claim alone is not evidence."""
    _journal_of(ledger, hosts, done).require_intended(done)
    return done.checkpoint


def _journal_of(ledger: Ledger, hosts: Path, done: ClaimCompleted) -> Journal:
    trace = RequestIds(done.key.tenant_id, done.correlation_id, done.key.scope, done.key.key, done.request_digest)
    return Journal(ledger, trace, hosts, 0)
