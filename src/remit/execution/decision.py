"""What a decision is. The default is refusal, and it is recorded like any other."""

from dataclasses import dataclass
from typing import Any

from remit.core.errors import Reason, RefusedError


@dataclass(frozen=True, slots=True)
class Denial:
    """One rule that said no."""

    reason: Reason
    what: str
    where: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Allowed only when at least one rule said yes and none said no: no rules at all means no."""

    granted_by: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()

    @property
    def allowed(self) -> bool:
        return bool(self.granted_by) and not self.denials

    def require(self) -> None:
        """Go on, or refuse with the first reason."""
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
