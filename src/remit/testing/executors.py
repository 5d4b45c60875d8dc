"""An old import path, kept for one release. Import `check_capability` from `remit.testing` instead."""

from remit.testing.executor_contract import check_capability

__all__ = ["check_capability"]
