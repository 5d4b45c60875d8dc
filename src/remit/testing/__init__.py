"""For tests of executors written for Remit, and for measuring Remit itself.

`check_capability` tries a capability on a real workspace in a real sandbox, and says what is wrong
with it. `goal_load` and its neighbours put goals under load, for `remit slo`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remit.testing.executor_contract import check_capability

__all__ = ["check_capability"]


def __getattr__(name: str) -> object:
    """`check_capability` needs a whole workspace; programs that want another module of this package do not load it."""
    if name == "check_capability":
        from remit.testing.executor_contract import check_capability  # noqa: PLC0415 - see above

        return check_capability
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
