"""What the chapters of `remit demo` share: a way to tell what was shown, and a check that it is true."""

from collections.abc import Callable

from remit.errors import EnvironmentFailed, Reason

Tell = Callable[[str, str], None]
"""Takes a title, and what came of it."""


def require(holds: object, otherwise: str) -> None:
    """The demo fails where it would have to lie."""
    if not holds:
        raise EnvironmentFailed(Reason.INTERNAL, f"the demo did not go as promised: {otherwise}")
