"""What takes something away from somebody: a logout, a removal.

It is in force as soon as the file says so, and the same change of the file notes that it is to be recorded. A process
that dies before the ledger has it leaves the note: whoever ends something next, invites or lets in anybody, lists
people, or starts the server records it then, once. Recorded first, a removal could be on record and not in force.
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
    """Of one workspace's people."""

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
        """Whose sessions `work` ended, and how many; each is a step of its own. No actor: everybody his own."""
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
        """Record what is in force and not recorded. How many steps that were."""
        if not self._file.read().unrecorded:
            return 0

        return self._file.change(lambda content: (self.with_recorded(content), len(content.unrecorded)))

    def with_recorded(self, content: PeopleFile) -> PeopleFile:
        """Within a change of the file: before anything new of anybody is recorded, or the record would have it in
        another order than it was.
        """
        if not content.unrecorded:
            return content
        for step in content.unrecorded:
            self._record(step)
        reach("people.recorded")
        return with_fields(content, unrecorded=())

    def _record(self, step: StoredRevocation) -> None:
        """Once: whoever died may have come as far as this."""

        def work(batch: Batch) -> None:
            recorded = batch.store.rows(_RECORDED, (self._tenant_id, step.person_id, step.kind))
            if not any(json.loads(text).get("step") == step.step_id for (text,) in recorded):
                payload = {"person": step.person_id, "sessions": step.sessions, "step": step.step_id}
                batch.append(NewEntry(self._tenant_id, step.kind, step.person_id, payload, actor=step.actor))

        self._ledger().transact(work)
