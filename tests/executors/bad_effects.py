"""Executors that break one promise each."""

from typing import Any

from remit.effects.work import Work
from remit.errors import Reason, Refused


class _Half:
    def run(self, work: Work) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {}, "undo_metadata": {}}


class _Failing:
    def run(self, work: Work) -> dict[str, Any]:
        raise Refused(Reason.EFFECT_FAILED, "never works", where=work.task_id)

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol
        return None


class _Talkative(_Failing):
    def retry(self) -> None:
        """An entry point too many."""


class _Lying(_Failing):
    def run(self, work: Work) -> dict[str, Any]:  # noqa: ARG002 - the protocol
        return {"result_summary": {"source": "nowhere"}, "undo_metadata": {"made": "up"}}


HALF, FAILING, TALKATIVE, LYING = _Half(), _Failing(), _Talkative(), _Lying()
