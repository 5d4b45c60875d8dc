"""The errors that callers catch. Kept for one release: import them from `remit.core.errors`."""

from remit.core.errors import EnvironmentFailed, Misuse, Reason, Refused, RemitError

__all__ = ["EnvironmentFailed", "Misuse", "Reason", "Refused", "RemitError"]
