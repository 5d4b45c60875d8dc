"""The decision of a policy. The default is refusal. Allowed and refused decisions are recorded alike."""

from dataclasses import dataclass
from typing import Any

from remit.core.errors import Reason, RefusedError


@dataclass(frozen=True, slots=True)
class Denial:
    """The reason of one rule that denies the request."""

    reason: Reason
    what: str
    where: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision. It allows only if at least one rule grants and no rule denies; without rules it denies."""

    granted_by: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()

    @property
    def allowed(self) -> bool:
        return bool(self.granted_by) and not self.denials

    def require(self) -> None:
        """Return if allowed. Otherwise raise `RefusedError` with the first reason."""
        if self.allowed:
            return
        first = self.denials[0] if self.denials else Denial(Reason.REVOKED, "no rule allows this")
        raise RefusedError(first.reason, first.what, where=first.where, next_step=first.next_step)

    def as_json(self) -> dict[str, Any]:
        return {
            "allowed": self.allowed,
            "granted_by": list(self.granted_by),
            "denials": [{"reason": d.reason.value, "what": d.what, "where": d.where} for d in self.denials],
        }
