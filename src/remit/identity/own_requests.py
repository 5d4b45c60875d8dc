"""Four eyes: whether people may approve what they requested themselves. Pure.

`approvals.allow_own` of the configuration decides. Without it, they may at the command line of the workspace, and not
through `remit serve`. A refusal at the command line would protect nothing: that person can open the state directory.

A requester is matched with the person who decides by the id that the ledger records: `os:`, `link:` or `oidc:` and an
account. Two ids with the same account are taken for one person. Limits: two ids with different accounts cannot be
matched, and neither can an agent with the person who issued its token.
"""

from typing import TYPE_CHECKING, Final

from remit.contracts.config.config import SystemConfig
from remit.core.errors import Reason, RefusedError
from remit.identity.person import PEOPLE, Person

if TYPE_CHECKING:
    from remit.identity.callers import PersonCaller

_ANOTHER: Final = "Another person with the role approver or admin decides it. An admin can invite one: remit people"
_SETTING: Final = "To let people approve what they request themselves, set approvals.allow_own to true in remit.yaml"


def is_same_person(requester: str, who: Person) -> bool:
    """Return whether the person made the request with this requester, as far as ids can tell."""
    if requester == who.id:
        return True
    kind, _, account = requester.partition(":")
    own_kind, _, own_account = who.id.partition(":")
    return {kind, own_kind} <= PEOPLE and account.casefold() == own_account.casefold()


def may_approve_own(caller: "PersonCaller", config: SystemConfig) -> bool:
    setting = config.approvals.allow_own
    return caller.at_terminal if setting is None else setting


def find_own_request_refusal(
    caller: "PersonCaller", requester: str, config: SystemConfig, *, where: str
) -> RefusedError | None:
    """Return why the person cannot approve this request, or None if they can. They can always deny it."""
    if may_approve_own(caller, config) or not is_same_person(requester, caller.person):
        return None
    same = "" if requester == caller.id else f", and you are {caller.id}, with the same account"
    return RefusedError(
        Reason.PERMISSION_DENIED,
        f"you cannot approve what you requested yourself: it was requested by {requester}{same}",
        where=where,
        next_step=f"{_ANOTHER} invite NAME --role approver. You can deny it. {_SETTING}; previews that were computed"
        " before that must be computed again.",
    )


def require_other_person(caller: "PersonCaller", requester: str, config: SystemConfig, *, where: str) -> None:
    """Refuse an approval by the person who made the request, unless the configuration allows it."""
    if (refusal := find_own_request_refusal(caller, requester, config, where=where)) is not None:
        raise refusal


def require_own_plans_allowed(config: SystemConfig) -> None:
    """Refuse a caller who would approve a plan that they brought themselves, if the configuration forbids that."""
    if config.approvals.allow_own is False:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "you cannot approve a plan that you bring yourself, because approvals.allow_own is false in remit.yaml",
            where="approvals.allow_own",
            next_step="Propose the plan: remit propose PLAN. Then another person approves it: remit approvals",
        )
