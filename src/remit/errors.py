"""Kept for one release: import the errors from `remit`. `Refused`, `Misuse` and `EnvironmentFailed` are older names."""

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError

__all__ = [
    "EnvironmentFailed",
    "EnvironmentFailureError",
    "Misuse",
    "Reason",
    "Refused",
    "RefusedError",
    "RemitError",
    "UsageError",
]

EnvironmentFailed = EnvironmentFailureError
Misuse = UsageError
Refused = RefusedError
