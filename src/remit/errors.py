"""The errors that callers catch. Kept for one release: import them from `remit.core.errors`."""

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError

__all__ = ["EnvironmentFailureError", "Reason", "RefusedError", "RemitError", "UsageError"]
