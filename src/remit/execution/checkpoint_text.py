"""Reads a checkpoint that an operation wrote before its effect."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from remit.core.errors import EnvironmentFailureError, Reason, RemitError

T = TypeVar("T")


def read_checkpoint(text: str, parse: Callable[[Any], T], what: str) -> T:
    """Parse a checkpoint. Its text was compared with the ledger, so a failure means another version of Remit."""
    try:
        return parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RemitError) as problem:
        raise EnvironmentFailureError(
            Reason.STORE_OUTDATED,
            f"a checkpoint cannot be read ({type(problem).__name__})",
            next_step=f"Use the version of Remit that started this {what}.",
        ) from None
