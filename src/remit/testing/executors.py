"""Kept for one release: import `check_capability` from `remit.testing`."""

from remit.testing.executor_contract import check_capability

__all__ = ["check_capability"]
