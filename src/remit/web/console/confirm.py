"""What is said once more before anything is decided or undone: the same in a dialog and on a page."""

from typing import Final, NamedTuple

from remit.web.console.templating import counted


class Confirmation(NamedTuple):
    title: str
    detail: str
    button: str
    tone: str = "no"
    """How the button looks: `yes`, `no`, or `final` where something of somebody's is lost."""


def approve(title: str, detail: str) -> Confirmation:
    return Confirmation("Approve this?", f"{title}: {detail}", "Yes, approve", "yes")


def deny(title: str, detail: str) -> Confirmation:
    return Confirmation("Deny this?", f"{title}: {detail}", "Yes, deny")


def apply(title: str) -> Confirmation:
    return Confirmation("Apply this plan now?", title, "Yes, apply it", "yes")


def compute(title: str) -> Confirmation:
    detail = f"{title}: its SQL and its pipelines run to find out what they would do. Nothing of that is kept."
    return Confirmation("Compute this preview again?", detail, "Yes, compute it", "yes")


def cancel(title: str) -> Confirmation:
    return Confirmation("Cancel this plan?", title, "Yes, cancel it")


def undo(title: str, drifted: int) -> Confirmation:
    if drifted:
        detail = f"{counted(drifted, 'file')} changed since the run would be overwritten."
        return Confirmation("Overwrite what was changed since, and undo?", detail, "Yes, overwrite and undo", "final")
    return Confirmation("Undo this run?", f"{title}: the files become as they were before it.", "Yes, undo it")


def undo_goal(utterance: str) -> Confirmation:
    return Confirmation("Take this back?", f"{utterance}: a goal of its own undoes what it did.", "Yes, take it back")


def revoke(holder: str) -> Confirmation:
    detail = "What waits for a person on its behalf becomes void. This cannot be taken back."
    return Confirmation(f"Revoke the token of {holder}?", detail, "Yes, revoke it")


def promote(name: str, tenant: str) -> Confirmation:
    detail = f"Users of {tenant} can have it done by asking, exactly as it was shown."
    return Confirmation(f"Promote {name}?", detail, "Yes, promote it", "yes")


def retire(name: str, tenant: str) -> Confirmation:
    return Confirmation(f"Retire {name}?", f"Users of {tenant} can no longer have it done.", "Yes, retire it")


def remove(name: str, is_me: bool = False, is_only_admin: bool = False) -> Confirmation:  # noqa: FBT001, FBT002 - said in a template
    detail = "All sessions and links end at once."
    if is_me:
        detail = f"This is you: you are logged out at once. {detail}"
    if is_only_admin:
        detail = f"{detail} Nobody else is an admin: the next one is let in at the server's own machine."
    return Confirmation(f"Remove {name}?", detail, "Yes, remove")


CONFIRMATIONS: Final = {
    each.__name__: each
    for each in (approve, deny, apply, compute, cancel, undo, undo_goal, revoke, promote, retire, remove)
}
"""For the templates."""
