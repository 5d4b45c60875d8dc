"""The same desk on PostgreSQL: events and searches rest on what both databases keep."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.contracts.services.common import Decision
from remit.contracts.services.ledger import EntryFilter
from remit.core.errors import RefusedError
from remit.ledger.entry import NewEntry
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person
from tests.services.hostile import call_each


@pytest.fixture
def office(tmp_path: Path, postgres_url: str) -> Iterator[Office]:
    made = Office(tmp_path, url=postgres_url)
    yield made
    made.close()


def test_the_services_work_with_a_ledger_on_postgresql(office: Office) -> None:
    workspace = office.workspace
    viewer, mia = person("viewer"), person("viewer", "mia", user="mia")
    with Services(workspace) as services:

        async def listen() -> list[str]:
            async with await services.events.subscribe(viewer) as first:
                workspace.ledger.append(NewEntry("globex", "test.one", "a", {"word": "100% Tea"}))
                workspace.ledger.append(NewEntry("globex", "test.two", "b", {}))
                workspace.approvals.change_signal.notify()
                after = (await anext(first)).id
            async with await services.events.subscribe(viewer, after) as again:
                workspace.ledger.append(NewEntry("default", "test.three", "c", {}))
                return [(await anext(again)).kind for _ in range(2)]

        assert asyncio.run(asyncio.wait_for(listen(), 20)) == ["test.two", "test.three"]
        found = {
            name: [
                each.entry.kind
                for each in services.ledger.list_entries(viewer, "globex", EntryFilter(**{name: value})).items
            ]
            for name, value in (("kind", "test.t"), ("text", "100% TEA"), ("correlation_id", "b"), ("actor", "nobody"))
        }
        assert found == {"kind": ["test.two"], "text": ["test.one"], "correlation_id": ["test.two"], "actor": []}
        bot = agent(workspace, "goal.ask", user="mia")
        asked = services.goals.ask(bot, "archive the note one", wait=30.0)
        assert [each.id for each in services.inbox.list_open(mia)] == [asked.correlation_id]
        services.inbox.decide(mia, "confirmation", asked.correlation_id, Decision(answer="yes"))
        assert services.goals.get(bot, "acme", asked.correlation_id).state == "done"
        assert services.ledger.trace(viewer, "acme", asked.correlation_id).holds
        admin = person("admin", user="mia")
        taken = [told for told in call_each(services, bot, admin) if not isinstance(told[2], RefusedError)]
        assert taken == []
        verdict = services.ledger.verify(viewer, wait=30.0).verdict
        assert verdict is not None
        assert verdict.holds, verdict.findings
