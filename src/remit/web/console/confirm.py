"""What is said once more before anything is decided or undone: the same in a dialog and on a page."""

from typing import Final, NamedTuple

from remit.web.console.templating import counted


class Asking(NamedTuple):
    title: str
    detail: str
    yes: str
    tone: str = "no"
    """How the button looks: `yes`, `no`, or `final` where something of somebody's is lost."""


def approve(title: str, words: str) -> Asking:
    return Asking("Approve this?", f"{title}: {words}", "Yes, approve", "yes")


def deny(title: str, words: str) -> Asking:
    return Asking("Deny this?", f"{title}: {words}", "Yes, deny")


def apply(title: str) -> Asking:
    return Asking("Apply this plan now?", title, "Yes, apply it", "yes")


def compute(title: str) -> Asking:
    meant = f"{title}: its SQL and its pipelines run to find out what they would do. Nothing of that is kept."
    return Asking("Compute this preview again?", meant, "Yes, compute it", "yes")


def cancel(title: str) -> Asking:
    return Asking("Cancel this plan?", title, "Yes, cancel it")


def undo(title: str, drifted: int) -> Asking:
    if drifted:
        lost = f"{counted(drifted, 'file')} changed since the run would be overwritten."
        return Asking("Overwrite what was changed since, and undo?", lost, "Yes, overwrite and undo", "final")
    return Asking("Undo this run?", f"{title}: the files become as they were before it.", "Yes, undo it")


def take_back(words: str) -> Asking:
    return Asking("Take this back?", f"{words}: a goal of its own undoes what it did.", "Yes, take it back")


def revoke(whose: str) -> Asking:
    lost = "What waits for a person on its behalf becomes void. This cannot be taken back."
    return Asking(f"Revoke the token of {whose}?", lost, "Yes, revoke it")


def promote(name: str, tenant: str) -> Asking:
    meant = f"Users of {tenant} can have it done by asking, exactly as it was shown."
    return Asking(f"Promote {name}?", meant, "Yes, promote it", "yes")


def retire(name: str, tenant: str) -> Asking:
    return Asking(f"Retire {name}?", f"Users of {tenant} can no longer have it done.", "Yes, retire it")


def remove(name: str, is_me: bool = False, is_only_admin: bool = False) -> Asking:  # noqa: FBT001, FBT002 - said in a template
    meant = "All sessions and links end at once."
    if is_me:
        meant = f"This is you: you are logged out at once. {meant}"
    if is_only_admin:
        meant = f"{meant} Nobody else is an admin: the next one is let in at the server's own machine."
    return Asking(f"Remove {name}?", meant, "Yes, remove")


WORDS: Final = {
    each.__name__: each
    for each in (approve, deny, apply, compute, cancel, undo, take_back, revoke, promote, retire, remove)
}
"""For the templates."""
