"""The old path of the errors, kept for one release. Import them from `remit`.

`Refused`, `Misuse` and `EnvironmentFailed` are older names of three of them.
"""

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
