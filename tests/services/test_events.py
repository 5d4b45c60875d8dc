"""The stream of events: exact, resumable, cheap for many, and for an agent only what is its own."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.services.common import Event as EventDocument
from remit.core.errors import Reason, RefusedError
from remit.fs.change_signal import ChangeSignal
from remit.identity.callers import Caller
from remit.ledger.cursor import ends_of
from remit.ledger.entry import NewEntry
from remit.services.base import events as events_module
from remit.services.base import subscriptions
from remit.services.base.event_format import StreamEvent
from remit.services.base.events import Events, Subscription
from remit.services.base.jobs import Job, JobRunner
from remit.services.services import Services
from tests.approvals.conftest import question
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person
from tests.support.task_workspace import manifest

SECONDS = 20.0


@pytest.fixture
def events(office: Office) -> Iterator[Events]:
    workspace = office.workspace
    made = Events(
        lambda: workspace.store,
        ChangeSignal(workspace.state.change_signal_file),
        workspace.clock,
        workspace.position_key,
    )
    yield made
    made.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, SECONDS))


def record(office: Office, kind: str, correlation_id: str, tenant: str = "default", **more: Any) -> int:
    entry = office.workspace.ledger.append(NewEntry(tenant, kind, correlation_id, {"n": correlation_id}, **more))
    office.workspace.approvals.change_signal.notify()
    return entry.seq


async def take_events(subscription: Subscription, most: int) -> list[StreamEvent]:
    return [await anext(subscription) for _ in range(most)]


def summarise(sent: StreamEvent) -> tuple[str, str | None]:
    return sent.kind, sent.event.correlation_id


def position_of(sent: StreamEvent) -> tuple[str | None, int | None]:
    return sent.event.tenant, sent.event.seq


def test_each_entry_is_sent_once_and_a_listener_that_returns_misses_nothing(office: Office, events: Events) -> None:
    """From every place in the stream, and told by another process: nothing twice, nothing left out."""
    workspace = office.workspace
    record(office, "test.before", "nobody listens yet")

    async def listen() -> None:
        async with await events.subscribe(person("viewer")) as listener:
            for number in range(3):
                record(office, "test.one", f"d{number}")
                record(office, "test.one", f"g{number}", "globex")
            whole = await take_events(listener, 6)
        assert {summarise(each) for each in whole} == {("test.one", f"{x}{n}") for x in "dg" for n in range(3)}
        assert all(EventDocument.parse(each.text.encode()) == each.event for each in whole)
        assert whole[0].event.payload == {"n": whole[0].event.correlation_id}
        since: set[tuple[str | None, int | None]] = set()
        for number, sent in enumerate(whole, start=1):
            other = Events(
                lambda: workspace.store,
                ChangeSignal(workspace.state.change_signal_file),
                workspace.clock,
                workspace.position_key,
            )
            async with await other.subscribe(person("viewer"), after=sent.id) as again:
                expected = {position_of(each) for each in whole[number:]} | since
                missed = [position_of(each) for each in await take_events(again, len(expected))]
                assert len(missed) == len(set(missed))
                assert set(missed) == expected
                new = ("globex", record(office, "test.now", str(number), "globex"))
                assert position_of(await anext(again)) == new
            other.close()
            since.add(new)

    run(listen())


@pytest.mark.req("PV-04")
def test_an_agent_cannot_count_the_entries_between_its_events_and_goes_on_from_each(
    office: Office, events: Events
) -> None:
    """When the preview of its plan was computed depends on what files hold, and is an entry like any other."""
    workspace = office.workspace
    mine = agent(workspace, "task.run", sub="mine")

    async def listen() -> None:
        async with await events.subscribe(mine) as listener:
            record(office, "task.asked", "first", actor="agent:mine")
            second = record(office, "task.asked", "second", actor="agent:mine")
            for number in range(100):  # so that the count gains a digit, whatever it was
                record(office, "test.other", f"o{number}")
            record(office, "task.asked", "third", actor="agent:mine")
            heard = await take_events(listener, 3)
        assert [each.event.seq for each in heard] == [None] * 3
        assert len({len(each.id or "") for each in heard}) == 1, "not even its length counts"
        other = Events(
            lambda: workspace.store,
            ChangeSignal(workspace.state.change_signal_file),
            workspace.clock,
            workspace.position_key,
        )
        async with await other.subscribe(mine, heard[0].id) as listener:
            assert [summarise(each)[1] for each in await take_events(listener, 2)] == ["second", "third"]
        other.close()
        broken = (heard[0].id or "")[:-2] + "AA"
        for place in (f"default:{second}", "agent.", "agent.AAAA", broken, "agent." + "A" * 200_000, "x" * 10):
            with pytest.raises(RefusedError) as refused:
                await events.subscribe(mine, place)
            assert (refused.value.reason, refused.value.where) == (Reason.MALFORMED, "Last-Event-ID")

    run(listen())


def test_an_agent_receives_events_of_its_own_requests_only_and_no_payload(office: Office, events: Events) -> None:
    workspace = office.workspace
    mine = agent(workspace, "task.run", "goal.ask", sub="mine", user="mia")
    # Names that are made to look like the agent's, and ids that are made to meet another door's.
    record(office, "browser.action", "act-1", actor="agent:mine")
    record(office, "task.asked", "shared-id", actor="agent:other")

    async def listen() -> None:
        async with await events.subscribe(mine) as listener, await events.subscribe(person()) as everybody:
            record(office, "task.asked", "t-own", actor="agent:mine", task_id="t-own")
            record(office, "task.outcome", "t-own", task_id="t-own")
            record(office, "task.outcome", "t-others", task_id="t-others")
            record(office, "task.outcome", "shared-id")
            record(office, "plan.outcome", "t-own")
            record(office, "browser.action", "act-2", actor="mine")
            record(office, "browser.action", "act-3", actor="agent:mine")
            record(office, "key.rotated", "k", actor="agent:mine")
            record(office, "goal.asked", "g-own", "acme", actor="agent:mine")
            record(office, "agent.approval", "g-own", "acme", actor="login:ann")
            record(office, "goal.asked", "g-own", "globex", actor="agent:mine")
            approval = workspace.approvals.ask(question(7, agent_id="mine"))
            workspace.approvals.ask(question(8, agent_id="agent:mine"))
            workspace.approvals.decide(approval.approval_id, approved=False, who=person().person)
            record(office, "task.asked", "the-end", actor="agent:mine")
            got: list[StreamEvent] = []
            while not got or got[-1].event.correlation_id != "the-end":
                got.append(await anext(listener))
            people = await take_events(everybody, 14)
        kinds = [summarise(each) for each in got]
        assert set(kinds) == {
            ("task.asked", "t-own"),
            ("task.outcome", "t-own"),
            ("browser.action", "act-2"),
            ("approval.requested", "action-7"),
            ("approval.denied", "action-7"),
            ("goal.asked", "g-own"),
            ("agent.approval", "g-own"),
            ("task.asked", "the-end"),
        }
        assert all(each.event.payload is None and each.event.actor is None for each in got)
        assert all(each.event.tenant != "globex" and "globex" not in (each.id or "") for each in got)
        assert any(each.event.payload for each in people)

    run(listen())


def test_a_listener_that_does_not_read_is_disconnected_with_a_notice(
    office: Office, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_QUEUED", 5)

    async def listen() -> None:
        async with await events.subscribe(person()) as idle, await events.subscribe(person()) as reader:
            for number in range(12):
                record(office, "test.many", str(number))
                assert (await anext(reader)).event.correlation_id == str(number)
            left = [each async for each in idle]
        assert [each.kind for each in left] == ["desk.lagged"]
        assert left[0].id is None

    run(listen())


def test_a_listener_that_missed_too_much_receives_a_notice_and_not_all_events(
    office: Office, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "MAX_MISSED", 5)

    async def listen() -> None:
        for number in range(6):
            record(office, "test.much", str(number))
        async with await events.subscribe(person(), after="-") as listener:
            assert (await anext(listener)).kind == "desk.lagged"
            record(office, "test.after", "z")
            assert summarise(await anext(listener)) == ("test.after", "z")

    run(listen())


def test_two_hundred_listeners_share_one_thread_and_one_text(office: Office, events: Events) -> None:
    async def listen() -> None:
        listeners = [await events.subscribe(person("viewer")) for _ in range(200)]
        record(office, "test.all", "x")
        texts = [(await anext(each)).text for each in listeners]
        assert len({id(text) for text in texts}) == 1
        assert events.listeners == 200
        for each in listeners:
            each.close()
        assert events.listeners == 0

    run(listen())


def test_progress_is_sent_to_people_and_to_its_owner(office: Office, events: Events) -> None:
    bot, stranger = (agent(office.workspace, "task.run", sub=name) for name in ("bot", "stranger"))

    async def listen() -> None:
        work = JobRunner()
        work.on_progress = events.publish_progress
        callers: list[Caller] = [person(), bot, stranger]
        heard = [await events.subscribe(caller) for caller in callers]

        def labour(job: Job[None]) -> None:
            for done in range(50):
                job.report_progress("bytes", done, 50)

        for subject in ("task:t", "plan:p", "verify:v"):
            job = work.start(subject, labour, subject=subject, owner=bot.id)
            assert await asyncio.to_thread(job.wait, SECONDS)
        # How far a task or a plan is tells of the files that it works on.
        for listener, summarise in ((heard[0], ("task:t", "plan:p", "verify:v")), (heard[1], ("verify:v",))):
            subjects: list[str] = []
            while subjects[-1:] != ["verify:v"]:
                sent = await anext(listener)
                assert (sent.kind, sent.id) == ("work.progress", None)
                subjects.append(json.loads(sent.text)["payload"]["subject"])
            assert tuple(dict.fromkeys(subjects)) == summarise
        record(office, "task.asked", "own", actor="agent:stranger")
        assert (await anext(heard[2])).kind == "task.asked"
        for listener in heard:
            listener.close()

    run(listen())


def test_positions_from_outside_are_read_strictly(events: Events) -> None:
    async def listen() -> None:
        for text in ("x", "default:-1", "default:1e3", ":1", "a:1,a:2", "a:1,", "a:99999999999999999", "%00:1", "a:٣"):
            with pytest.raises(RefusedError) as refused:
                await events.subscribe(person(), after=text)
            assert refused.value.reason is Reason.MALFORMED, text
        listener = await events.subscribe(person(), after="default:999999999,nobody%3A%2C:5")
        listener.close()

    run(listen())


def test_closing_ends_every_listener(office: Office, events: Events) -> None:
    async def listen() -> None:
        listener = await events.subscribe(person())
        record(office, "test.last", "x")
        first = await anext(listener)
        assert first.kind == "test.last"
        await asyncio.to_thread(events.close)
        assert [each async for each in listener] == []
        with pytest.raises(RefusedError):
            await events.subscribe(person())

    run(listen())


def test_events_of_a_task_are_sent_to_the_agent_that_ran_it(office: Office, services: Services) -> None:
    """The real thing: who ran it is recorded with the intent, so what follows is its own."""
    bot = agent(office.workspace, "task.run", sub="real")

    async def listen() -> None:
        async with await services.events.subscribe(bot) as listener:
            task = manifest("t-real")
            lease = services.tasks.lease(person(), task, timedelta(minutes=1)).canonical()
            await asyncio.to_thread(services.tasks.run, bot, task, lease, 20.0)
            kinds = [each.kind for each in await take_events(listener, 3)]
        assert kinds == ["task.intent", "task.asked", "task.outcome"]

    run(listen())


def test_missed_events_are_sent_in_batches_without_waiting_for_more(
    office: Office, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen() -> None:
        async with await events.subscribe(person("viewer")) as listener:
            record(office, "test.several", "first")
            start = (await listener.next_batch())[-1]
        for number in range(5):
            record(office, "test.several", f"missed-{number}")
        monkeypatch.setattr(subscriptions, "BATCH_SIZE", 3)
        async with await events.subscribe(person("viewer"), after=start.id) as again:
            missed = [await again.next_batch(), await again.next_batch()]
            assert [len(each) for each in missed] == [3, 2]
            assert [summarise(each)[1] for each in (*missed[0], *missed[1])] == [
                f"missed-{number}" for number in range(5)
            ]
            record(office, "test.several", "new")
            assert [summarise(each)[1] for each in await again.next_batch()] == ["new"]
            events.close()
            assert await again.next_batch() == []
        assert start.stream == f"id: {start.id}\nevent: test.several\ndata: {start.text}\n\n".encode()

    run(listen())


def test_a_caller_that_disconnects_while_it_subscribes_is_no_listener(
    office: Office, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> dict[str, int]:
        looking.set()
        assert go_on.wait(SECONDS)
        return ends_of(*arguments)

    async def listen() -> None:
        monkeypatch.setattr(events_module, "ends_of", slow)
        joining = asyncio.create_task(events.subscribe(person()))
        assert await asyncio.to_thread(looking.wait, SECONDS)
        joining.cancel()
        await asyncio.wait([joining])
        go_on.set()
        monkeypatch.undo()
        async with await events.subscribe(person()):  # after the look of the first
            assert events.listeners == 1

    run(listen())


def test_a_caller_who_lost_access_receives_no_later_entries_of_other_chains(
    office: Office, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one look at all chains, whatever their names: and only those who may be concerned are asked again."""
    monkeypatch.setattr("remit.services.base.events.RECHECK_SECONDS", 3600.0)
    alive, asked = [True], []

    def counts() -> bool:
        asked.append(1)
        return alive[0]

    async def work() -> None:
        async with await events.subscribe(person(), is_valid=counts) as gone, await events.subscribe(person()) as stays:
            with events._poll_lock:  # noqa: SLF001 - all of it comes in one look
                alive[0] = False
                record(office, "token.revoked", "his")
                record(office, "test.after", "a", tenant="aaa")
                record(office, "test.after", "b")
            assert [summarise(sent) for sent in await take_events(stays, 3)] == [
                ("token.revoked", "his"),
                ("test.after", "b"),
                ("test.after", "a"),
            ]
            assert [sent async for sent in gone] == []
            assert gone.ended_with_caller
            assert events.listeners == 1
        alive[0] = True
        async with await events.subscribe(person(), is_valid=counts) as listener:
            record(office, "test.first", "asked")  # he joined a moment ago
            await take_events(listener, 1)
            before = len(asked)
            for number in range(3):
                record(office, "test.more", str(number))
            await take_events(listener, 3)
            assert len(asked) == before
            record(office, "person.removed", "another")
            await take_events(listener, 1)
            assert len(asked) == before + 1

    run(work())
