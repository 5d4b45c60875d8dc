"""The types of the browser operation: its view of the browser and of the tokens, and an action at each stage."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from remit.authority.capability_token import Token
from remit.browser.actions import ActionTarget, PerformedAction
from remit.browser.checkpoint import AuditData
from remit.browser.held_requests import RunningAction
from remit.contracts.browser.browser import Action, Approval
from remit.core.errors import RemitError
from remit.store.connection import Connection

if TYPE_CHECKING:
    from remit.browser.sessions import Tab  # which loads the browser's driver


class BrowserPort(Protocol):
    """The calls of the operation to the browser. `remit.browser.driver.BrowserDriver` implements them."""

    def acquire_tab(self, token: Token, action: Action) -> "Tab": ...
    def inspect(self, tab: "Tab", action: Action) -> ActionTarget: ...
    def begin_action(self, tab: "Tab", target: ActionTarget, running: RunningAction) -> None: ...
    def perform(self, tab: "Tab", target: ActionTarget, running: RunningAction, token: Token) -> PerformedAction: ...
    def read_hash(self, tab: "Tab") -> str | None: ...
    def take_picture(self, tab: "Tab", target: ActionTarget) -> str | None: ...
    def save_picture(self, picture: bytes) -> str: ...


class TokenVerifier(Protocol):
    """The tokens of the workspace. `remit.identity.tokens.Tokens` implements them."""

    def verify(self, text: str, now: datetime | None = None) -> Token: ...
    def signed_jti(self, text: str) -> str | None: ...
    def require_still_valid(self, connection: Connection, token: Token, now: datetime) -> None: ...
    def use(self, connection: Connection, token: Token, action_id: str, now: datetime) -> None: ...


@dataclass(frozen=True)
class BrowserRequest:
    """A request for an action. None of it is verified until `verified` has the token."""

    action: Action
    token: str = field(repr=False)
    digest: str
    audit: AuditData = field(default_factory=AuditData, compare=False)
    verified: list[Token] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class GrantedAction:
    """An action whose token was verified, with its state so far."""

    request: BrowserRequest
    token: Token
    tabs: list["Tab"] = field(default_factory=list, compare=False)
    targets: list[ActionTarget] = field(default_factory=list, compare=False)
    approvals: list[Approval] = field(default_factory=list, compare=False)

    @property
    def action(self) -> Action:
        return self.request.action


@dataclass(frozen=True)
class InterruptedAction:
    """An action whose process died. Its session has ended, and no part of it is tried again."""

    problem: RemitError
    sent: int
    """The number of requests that change something and were sent or may have been sent."""


ActionEffect = PerformedAction | InterruptedAction
