"""The texts of the confirmation before a decision or a rollback, for the dialog and for the page."""

from typing import Final, NamedTuple

from remit.web.console.templating import counted


class Confirmation(NamedTuple):
    title: str
    detail: str
    button: str
    tone: str = "no"
    """The style of the button: `yes`, `no`, or `final` where later changes of a person are overwritten."""


def approve(title: str, detail: str) -> Confirmation:
    return Confirmation("Approve this?", f"{title}: {detail}", "Yes, approve", "yes")


def deny(title: str, detail: str) -> Confirmation:
    return Confirmation("Deny this?", f"{title}: {detail}", "Yes, deny")


def apply(title: str) -> Confirmation:
    return Confirmation("Apply this plan now?", title, "Yes, apply it", "yes")


def compute(title: str) -> Confirmation:
    detail = f"{title}: its SQL and pipelines run to find out what they would do. Their changes are discarded."
    return Confirmation("Compute this preview?", detail, "Yes, compute it", "yes")


def withdraw(title: str) -> Confirmation:
    return Confirmation("Withdraw this plan?", f"{title}: it cannot be approved after that.", "Yes, withdraw it")


def cancel(title: str) -> Confirmation:
    return Confirmation("Cancel this plan?", title, "Yes, cancel it")


def undo(title: str, drifted: int) -> Confirmation:
    if drifted:
        detail = f"{counted(drifted, 'file')} changed since the run would be overwritten."
        return Confirmation("Overwrite later changes and roll back?", detail, "Yes, overwrite and roll back", "final")
    detail = f"{title}: the files become as they were before the run."
    return Confirmation("Roll back this run?", detail, "Yes, roll it back")


def undo_goal(utterance: str) -> Confirmation:
    return Confirmation("Roll back this goal?", f"{utterance}: a new goal reverses its effect.", "Yes, roll it back")


def undo_steps(utterance: str) -> Confirmation:
    detail = f"{utterance}: its steps are rolled back, the last one first. Remit asks you once more."
    return Confirmation("Roll back this whole goal?", detail, "Yes, roll it back")


def answer(title: str, word: str) -> Confirmation:
    return Confirmation(f"Answer “{word}”?", title, f"Answer “{word}”", "yes")


def revoke(holder: str) -> Confirmation:
    detail = "Its open approval requests become void. A revocation cannot be reversed."
    return Confirmation(f"Revoke the token of {holder}?", detail, "Yes, revoke it")


def promote(name: str, tenant: str) -> Confirmation:
    detail = f"Users of {tenant} can then request it, exactly as it was shown."
    return Confirmation(f"Promote {name}?", detail, "Yes, promote it", "yes")


def retire(name: str, tenant: str) -> Confirmation:
    return Confirmation(f"Retire {name}?", f"Users of {tenant} can no longer request it.", "Yes, retire it")


def remove(name: str, is_me: bool = False, is_only_admin: bool = False) -> Confirmation:  # noqa: FBT001, FBT002 - used in a template
    detail = "All their sessions and links end at once."
    if is_me:
        detail = f"This is you: you are logged out at once. {detail}"
    if is_only_admin:
        detail = f"{detail} There is no other admin: a new one can only be invited at a terminal of the server."
    return Confirmation(f"Remove {name}?", detail, "Yes, remove")


CONFIRMATIONS: Final = {
    each.__name__: each
    for each in (
        answer,
        approve,
        deny,
        apply,
        compute,
        withdraw,
        cancel,
        undo,
        undo_goal,
        undo_steps,
        revoke,
        promote,
        retire,
        remove,
    )
}
"""For the templates."""
