"""The stream of events: what the record gains, told to whoever listens, and how far running work is.

One thread looks at the record, for all listeners: at the change signal, and a few times a second; and only while
somebody listens. It makes one text of each event, and hands all listeners of an event loop theirs at once. A listener
that does not read is let go with the event `desk.lagged`, and can come back with the id of the last event it saw:
events have exact ids, whatever process told them.

A listener is told nothing that was recorded after his session or token ended: before entries are handed out, those
whom one of them may concern are asked whether they still count.
"""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.fs.change_signal import ChangeSignal
from remit.identity.callers import AgentCaller, Caller
from remit.ledger.cursor import ends_of, entries_between, kinds_between, parse_position, render_position
from remit.ledger.entry import Entry
from remit.services.base.event_cursor import SealedPositions
from remit.services.base.event_format import LAGGED, PROGRESS, StreamEvent, make_stream_event, make_transient_event
from remit.services.base.jobs import Job
from remit.services.base.ownership import find_agent_recipient, is_visible_to_agents
from remit.services.base.permissions import Right, require
from remit.services.base.subscriptions import BATCH_SIZE, Subscription
from remit.store.connection import Connection, Store

POLL_SECONDS: Final = 0.25
"""Between two looks at the record, without a change signal: most of what is recorded sends none."""
MANY_CHAINS: Final = 100
MAX_LISTENERS: Final = 1_000
MAX_MISSED: Final = 10_000
"""Events that a listener who comes back is told at most; whoever missed more looks at the record itself."""
PROGRESS_SECONDS: Final = 0.1
ENDING_KINDS: Final = ("person.", "token.", "key.")
"""Kinds of entries after which a session or a token may not count any more. What they tell of is in force by then."""
RECHECK_SECONDS: Final = 1.0
"""What ends by the clock, or is in force and not recorded yet, is found with the first entries after so long."""
_FOR_PEOPLE: Final = ("plan:", "task:")
"""Subjects of work whose progress only people are told."""
_LOG: Final = logging.getLogger("remit.events")


class Events:
    """The events of one workspace. Safe to use from any thread; `subscribe` from an event loop."""

    def __init__(
        self, store: Callable[[], Store], signal: ChangeSignal, clock: Clock, position_key: Callable[[], bytes]
    ) -> None:
        """`position_key` seals the positions that agents are given."""
        self._store = store
        self._sealed = SealedPositions(position_key)
        self._signal = signal
        self._clock = clock
        self._lock = threading.Lock()
        self._poll_lock = threading.Lock()  # one look at a time; guards _published
        self._listeners: set[Subscription] = set()
        self._published: dict[str, int] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._progress: dict[str, float] = {}
        self._last_check = -math.inf

    async def subscribe(
        self, caller: Caller, after: str | None = None, is_valid: Callable[[], bool] = lambda: True
    ) -> Subscription:
        """From now on, or from a position on; then first what was missed since, and after that what happens.

        `is_valid` says whether the caller is still who he was. It blocks, and is asked in a thread.
        """
        require(caller, Right.SEE_OWN)
        if after is not None and isinstance(caller, AgentCaller):
            after = self._sealed.open(after)
        since = None if after is None else parse_position(after)
        subscription = Subscription(self, caller, asyncio.get_running_loop(), is_valid)
        try:
            await asyncio.to_thread(self._add_listener, subscription, since)
        except BaseException:  # such as a caller who hung up meanwhile: the thread goes on without him
            subscription.close()
            raise
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._listeners.discard(subscription)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def publish(
        self, kind: str, payload: dict[str, Any], *, owner: str | None = None, about: str | None = None
    ) -> None:
        """Something that is in no record: to all people, and to the agent whose it is."""
        if self._listeners:
            sent = make_transient_event(kind, self._clock(), payload, about)
            self._deliver_all([(owner, sent, {})])

    def publish_progress(self, job: Job[Any]) -> None:
        """At most ten times a second of each job."""
        if not self._listeners or job.progress is None:
            return
        now, last = time.monotonic(), self._progress.get(job.key, 0.0)
        if now - last < PROGRESS_SECONDS:
            return
        if len(self._progress) > MAX_LISTENERS:
            self._progress.clear()
        self._progress[job.key] = now
        about = {"subject": job.subject, **job.progress.tree()}
        # How far a plan or a task is tells of the files: an agent hears how it ended.
        self.publish(PROGRESS, about, owner=None if job.subject.startswith(_FOR_PEOPLE) else job.owner)

    def make_lagged_event(self) -> StreamEvent:
        return make_transient_event(
            LAGGED, self._clock(), {"next_step": "Come back with the id of the last event you saw."}
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            listeners, self._listeners = self._listeners, set()
            thread = self._thread
        self._signal.notify()
        for listener in listeners:
            _call_in_loop(listener.loop, listener.end)
        if thread is not None:
            thread.join(POLL_SECONDS * 20)

    # --- joining ------------------------------------------------------------------------------------------------------

    def _add_listener(self, subscription: Subscription, position: dict[str, int] | None) -> None:
        with self._poll_lock:  # nothing is told between the look and the joining
            published = dict(self._poll())
            with self._lock:
                if self._closed or len(self._listeners) >= MAX_LISTENERS:
                    raise RefusedError(
                        Reason.RESOURCE_EXHAUSTED,
                        "too many listen to the events already",
                        where="the stream of events",
                        next_step="Close a page that shows them, or try again later.",
                    )
                if subscription.is_ended:
                    return
                self._listeners.add(subscription)
                self._last_check = -math.inf  # he may have ended since he was let in
                if self._thread is None:
                    self._thread = threading.Thread(target=self._watch, name="remit-events", daemon=True)
                    self._thread.start()
        if position is not None:
            subscription.missed = self._read_missed(subscription, position, published)

    async def _read_missed(
        self, subscription: Subscription, position: dict[str, int], published: dict[str, int]
    ) -> AsyncIterator[StreamEvent]:
        """What happened between a position and the moment of joining, a stretch at a time."""
        ends = {
            name: end for name, end in published.items() if subscription.tenants is None or name in subscription.tenants
        }
        seqs = {name: min(position.get(name, 0), end) for name, end in ends.items()}
        behind = sum(ends.values()) - sum(seqs.values())
        if behind > MAX_MISSED and subscription.agent is not None:
            behind = await asyncio.to_thread(self._count_missed, seqs, ends)
        if behind > MAX_MISSED:
            yield self.make_lagged_event()
            return
        for name in sorted(ends):
            while seqs[name] < ends[name]:
                batch = await asyncio.to_thread(self._read_batch, name, seqs[name], ends[name], subscription)
                for entry, owner in batch:
                    seqs[name] = entry.seq
                    if subscription.can_receive(owner, name):
                        yield self._with_position(make_stream_event(entry), seqs, subscription)
                if not batch:
                    return  # a gap in the chain: whoever verifies it names it

    def _count_missed(self, seqs: dict[str, int], ends: dict[str, int]) -> int:
        """For an agent, without what no agent is told of: else it could count that by events of its own."""
        with self._store().reading() as connection:
            found = [kinds_between(connection, name, seqs[name], ends[name]) for name in ends]
        return sum(number for kinds in found for kind, number in kinds.items() if is_visible_to_agents(kind))

    def _read_batch(
        self, tenant_id: str, after: int, until: int, subscription: Subscription
    ) -> list[tuple[Entry, str | None]]:
        with self._store().reading() as connection:
            found = entries_between(connection, tenant_id, after, until, BATCH_SIZE)
            return [(each, find_agent_recipient(connection, each) if subscription.agent else None) for each in found]

    # --- looking ------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        listener = self._signal.listen()
        try:
            while not self._stop_if_idle():
                try:
                    with self._poll_lock:
                        self._poll()
                except RemitError as problem:  # such as a database that is away for a while
                    _LOG.warning("the record could not be looked at", extra={"why": str(problem)})
                listener.wait(self._poll_interval)
        finally:
            listener.close()

    @property
    def _poll_interval(self) -> float:
        """A look costs something for each chain."""
        return POLL_SECONDS * max(1.0, len(self._published or ()) / MANY_CHAINS)

    def _stop_if_idle(self) -> bool:
        """Nobody listens: then nothing is looked at, and whoever comes next begins anew."""
        with self._poll_lock, self._lock:
            if self._listeners and not self._closed:
                return False
            self._thread, self._published = None, None
            return True

    def _poll(self) -> dict[str, int]:
        """Tell what is new, in the order of each chain; how far all were told. Without a beginning, from the end on."""
        with self._store().reading() as connection:
            ends = ends_of(connection)
            if self._published is None:
                self._published = ends
                return self._published
            # What ends a session or a token is in the default chain, and comes before what others gained after it.
            for name, end in sorted(ends.items(), key=lambda each: each[0] != DEFAULT_TENANT):
                while self._published.get(name, 0) < end:
                    new = entries_between(connection, name, self._published.get(name, 0), end, BATCH_SIZE)
                    self._publish_entries(connection, new)
                    if not new:
                        self._published[name] = end
        return self._published

    def _publish_entries(self, connection: Connection, entries: Sequence[Entry]) -> None:
        self._drop_invalid_listeners(entries)
        seqs = self._published if self._published is not None else {}
        wants_owner = any(listener.agent for listener in self._listeners)
        published = []
        for entry in entries:
            seqs[entry.tenant_id] = entry.seq
            owner = find_agent_recipient(connection, entry) if wants_owner else None
            published.append((owner, make_stream_event(entry), dict(seqs)))
        self._deliver_all(published)

    def _drop_invalid_listeners(self, entries: Sequence[Entry]) -> None:
        """Of those who do not count any more, before they are told any of these."""
        now = time.monotonic()
        if not entries or (
            now - self._last_check < RECHECK_SECONDS
            and not any(entry.kind.startswith(ENDING_KINDS) for entry in entries)
        ):
            return
        self._last_check = now
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            if not _is_still_valid(listener):
                self.unsubscribe(listener)
                _call_in_loop(listener.loop, listener.end_with_caller)

    def _deliver_all(self, published: Sequence[tuple[str | None, StreamEvent, dict[str, int]]]) -> None:
        """One call for each event loop, and one text of each event for all people."""
        for_people = [sent.at_position(render_position(seqs)) if seqs else sent for _, sent, seqs in published]
        with self._lock:
            by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Subscription, Sequence[StreamEvent]]]] = {}
            for listener in self._listeners:
                theirs = for_people if listener.agent is None else self._for_agent(listener, published)
                if theirs:
                    by_loop.setdefault(listener.loop, []).append((listener, theirs))
        for loop, each in by_loop.items():
            _call_in_loop(loop, _deliver, each)

    def _for_agent(
        self, listener: Subscription, published: Sequence[tuple[str | None, StreamEvent, dict[str, int]]]
    ) -> list[StreamEvent]:
        """Its own only, and with positions that name no tenant but its own."""
        found = []
        for owner, sent, seqs in published:
            if listener.can_receive(owner, sent.tenant):
                visible = {
                    name: seq for name, seq in seqs.items() if listener.tenants is None or name in listener.tenants
                }
                found.append(self._with_position(sent, visible, listener) if seqs else sent)
        return found

    def _with_position(self, sent: StreamEvent, seqs: dict[str, int], listener: Subscription) -> StreamEvent:
        position = render_position(seqs)
        return (
            sent.at_position(position)
            if listener.agent is None
            else sent.at_position(self._sealed.seal(position), for_agent=True)
        )


def _is_still_valid(listener: Subscription) -> bool:
    """A look that fails, such as in a store that is away, ends nobody: whoever asks next finds out."""
    try:
        return listener.is_valid()
    except EnvironmentFailureError as problem:
        _LOG.warning("whether a listener still counts is not known", extra={"why": str(problem)})
        return True


def _deliver(each: Sequence[tuple[Subscription, Sequence[StreamEvent]]]) -> None:
    for listener, sent in each:
        listener.enqueue(sent)


def _call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and its listeners with it
        loop.call_soon_threadsafe(what, *arguments)


__all__ = ["Events", "StreamEvent", "Subscription"]
