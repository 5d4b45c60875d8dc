"""Executors that break one promise each."""

import os
from typing import Any

from remit.executors import EffectContext, Reason, RefusedError, rename_noreplace


class _Half:
    def run(self, work: EffectContext) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {}, "undo_metadata": {}}


class _Failing:
    def run(self, work: EffectContext) -> dict[str, Any]:
        raise RefusedError(Reason.EFFECT_FAILED, "never works", where=work.task_id)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        return None


class _Talkative(_Failing):
    def retry(self) -> None:
        """An entry point too many."""


class _Lying(_Failing):
    def run(self, work: EffectContext) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {"source": "nowhere"}, "undo_metadata": {"made": "up"}}


class _Littering:
    """Makes what it was asked for, and never looks back."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        spot = work.spots["destination_path"]
        part = os.open(work.part_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=spot.folder)
        os.write(part, b"half")
        os.close(part)
        rename_noreplace(spot.folder, work.part_name, spot.folder, spot.name)
        return {"result_summary": {}, "undo_metadata": {}}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        return None


LITTERING = _Littering()
HALF, FAILING, TALKATIVE, LYING = _Half(), _Failing(), _Talkative(), _Lying()
