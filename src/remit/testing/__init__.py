"""Tests for executors that are written for Remit, and load tests of Remit itself.

`check_capability` tests a capability in a real workspace and a real sandbox, and returns the problems. `goal_load` and
the other modules run goals under load, for `remit slo`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remit.testing.executor_contract import check_capability

__all__ = ["check_capability"]


def __getattr__(name: str) -> object:
    """Load `check_capability` on first use, because it loads modules that users of this package may not need."""
    if name == "check_capability":
        from remit.testing.executor_contract import check_capability  # noqa: PLC0415 - see above

        return check_capability
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
