"""Counts the sandboxed processes that are handed out. They really run."""

from typing import Any

import pytest

from remit.sandbox.host import SandboxHost


def count_sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets one item for each process that is handed out to run something."""
    seen: list[int] = []
    take = SandboxHost._claim_child  # noqa: SLF001 - every process that runs anything comes from here

    def counted(host: SandboxHost, *given: Any) -> Any:
        seen.append(1)
        return take(host, *given)

    monkeypatch.setattr(SandboxHost, "_claim_child", counted)
    return seen
