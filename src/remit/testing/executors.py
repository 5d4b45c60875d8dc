"""Kept for one release: import `check_capability` from `remit.testing.executor_contract`."""

from remit.testing.executor_contract import check_capability

__all__ = ["check_capability"]
