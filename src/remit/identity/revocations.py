"""Revocations of people: logouts and removals.

A revocation is in force as soon as it is in the file of people. The same change notes that it must be recorded in the
ledger. If the process dies before that, the note stays. The next process that revokes, invites, logs in or lists
people, or starts the server, records it once. In the other order, the ledger could have a removal that is not in force.
"""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal

from remit.core.faultpoints import reach
from remit.core.ids import uuid7
from remit.identity.people_file import PeopleFile, PeopleStore, StoredRevocation, with_fields
from remit.ledger.entry import NewEntry, require_still_valid
from remit.ledger.writer import Batch, Ledger

Kind = Literal["person.logged_out", "person.removed"]
_RECORDED: Final = "SELECT payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?"


class Revocations:
    """The revocations of one workspace's people."""

    def __init__(
        self, file: PeopleStore, ledger: Callable[[], Ledger], now: Callable[[], datetime], tenant_id: str
    ) -> None:
        self._file = file
        self._ledger = ledger
        self._now = now
        self._tenant_id = tenant_id

    def end(
        self, kind: Kind, actor: str | None, work: Callable[[PeopleFile], tuple[PeopleFile, Counter[str]]]
    ) -> Counter[str]:
        """End sessions by `work`, and return their number by person. Each person is a step with its own ledger entry.

        Without an actor, each person is the actor of their own step.
        """
        now = self._now()

        def with_revocations(content: PeopleFile) -> tuple[PeopleFile, Counter[str]]:
            with self._ledger().store.reading_pooled() as connection:
                require_still_valid(actor, connection, now)
            rest, ended = work(content)
            steps = (
                StoredRevocation(
                    step_id=uuid7(now),
                    kind=kind,
                    person_id=person_id,
                    sessions=sessions,
                    actor=str(actor or person_id),
                )
                for person_id, sessions in ended.items()
            )
            return with_fields(rest, unrecorded=(*rest.unrecorded, *steps)), ended

        ended = self._file.change(with_revocations)
        reach("people.ended")
        self.record_pending()
        return ended

    def record_pending(self) -> int:
        """Record the steps that are in force but not recorded. Return their number."""
        if not self._file.read().unrecorded:
            return 0

        return self._file.change(lambda content: (self.with_recorded(content), len(content.unrecorded)))

    def with_recorded(self, content: PeopleFile) -> PeopleFile:
        """Record the open steps, and return the content without them. Call it within a change of the file.

        It comes before any new entry about a person. Otherwise the order in the ledger would be wrong.
        """
        if not content.unrecorded:
            return content
        for step in content.unrecorded:
            self._record(step)
        reach("people.recorded")
        return with_fields(content, unrecorded=())

    def _record(self, step: StoredRevocation) -> None:
        """Record a step, unless a process that died after recording it has done so."""

        def work(batch: Batch) -> None:
            recorded = batch.store.rows(_RECORDED, (self._tenant_id, step.person_id, step.kind))
            if not any(json.loads(text).get("step") == step.step_id for (text,) in recorded):
                payload = {"person": step.person_id, "sessions": step.sessions, "step": step.step_id}
                batch.append(NewEntry(self._tenant_id, step.kind, step.person_id, payload, actor=step.actor))

        self._ledger().transact(work)
