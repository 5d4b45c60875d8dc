"""The stream of events: new ledger entries and the progress of running work, for all listeners.

One thread reads the ledger for all listeners, at each change signal and a few times a second. It runs only while there
is a listener. It renders each event once, and hands the events of all listeners of an event loop over in one call. A
listener that does not read is removed with the event `desk.lagged`. It can reconnect with the id of the last event it
saw, because every process gives an event the same id.

A listener gets no entry that was recorded after its session or token ended. Before entries are handed over that may end
a session or a token, each listener's caller is checked again.
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
"""The time between two reads of the ledger without a change signal. Most entries send no signal."""
MANY_CHAINS: Final = 100
MAX_LISTENERS: Final = 1_000
MAX_MISSED: Final = 10_000
"""The most missed events that a reconnected listener gets. If it missed more, it has to read the ledger."""
PROGRESS_SECONDS: Final = 0.1
ENDING_KINDS: Final = ("person.", "token.", "key.")
"""Kinds of entries after which a session or a token may be invalid. The change is in force when its entry appears."""
RECHECK_SECONDS: Final = 1.0
"""The time after which the first new entries cause a check of all listeners. It finds a session or token that expired,
or whose end is in force but not recorded yet."""
_FOR_PEOPLE: Final = ("plan:", "task:")
"""Subjects of jobs whose progress only people get."""
_LOG: Final = logging.getLogger("remit.events")


class Events:
    """The events of one workspace. Safe to use from any thread; `subscribe` from an event loop."""

    def __init__(
        self, store: Callable[[], Store], signal: ChangeSignal, clock: Clock, position_key: Callable[[], bytes]
    ) -> None:
        """`position_key` returns the key that seals positions for agents."""
        self._store = store
        self._sealed = SealedPositions(position_key)
        self._signal = signal
        self._clock = clock
        self._lock = threading.Lock()
        self._poll_lock = threading.Lock()  # one read at a time; guards _published
        self._listeners: set[Subscription] = set()
        self._published: dict[str, int] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._progress: dict[str, float] = {}
        self._last_check = -math.inf

    async def subscribe(
        self, caller: Caller, after: str | None = None, is_valid: Callable[[], bool] = lambda: True
    ) -> Subscription:
        """Subscribe to new events, or to all events after a position, the missed ones first.

        `is_valid` says whether the caller's session or token is still valid. It blocks, and is called in a thread.
        """
        require(caller, Right.SEE_OWN)
        if after is not None and isinstance(caller, AgentCaller):
            after = self._sealed.open(after)
        since = None if after is None else parse_position(after)
        subscription = Subscription(self, caller, asyncio.get_running_loop(), is_valid)
        try:
            await asyncio.to_thread(self._add_listener, subscription, since)
        except BaseException:  # such as a caller that disconnected; the thread continues without it
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
        """Publish an event that is not in the ledger, to all people and to the agent that owns it."""
        if self._listeners:
            sent = make_transient_event(kind, self._clock(), payload, about)
            self._deliver_all([(owner, sent, {})])

    def publish_progress(self, job: Job[Any]) -> None:
        """Publish the progress of a job, at most ten times a second."""
        if not self._listeners or job.progress is None:
            return
        now, last = time.monotonic(), self._progress.get(job.key, 0.0)
        if now - last < PROGRESS_SECONDS:
            return
        if len(self._progress) > MAX_LISTENERS:
            self._progress.clear()
        self._progress[job.key] = now
        about = {"subject": job.subject, **job.progress.tree()}
        # The progress of a plan or task depends on the files. So an agent gets only the outcome.
        self.publish(PROGRESS, about, owner=None if job.subject.startswith(_FOR_PEOPLE) else job.owner)

    def make_lagged_event(self) -> StreamEvent:
        return make_transient_event(
            LAGGED, self._clock(), {"next_step": "Reconnect with the id of the last event that you saw."}
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
        with self._poll_lock:  # no event is published between the read and the join
            published = dict(self._poll())
            with self._lock:
                if self._closed or len(self._listeners) >= MAX_LISTENERS:
                    raise RefusedError(
                        Reason.RESOURCE_EXHAUSTED,
                        "too many event streams are open",
                        where="the stream of events",
                        next_step="Close a page that shows events, or try again later.",
                    )
                if subscription.is_ended:
                    return
                self._listeners.add(subscription)
                self._last_check = -math.inf  # the session may have ended since the caller was admitted
                if self._thread is None:
                    self._thread = threading.Thread(target=self._watch, name="remit-events", daemon=True)
                    self._thread.start()
        if position is not None:
            subscription.missed = self._read_missed(subscription, position, published)

    async def _read_missed(
        self, subscription: Subscription, position: dict[str, int], published: dict[str, int]
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events between a position and the moment of the join. They are read in batches."""
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
                    return  # a gap in the chain; a verification of the ledger reports it

    def _count_missed(self, seqs: dict[str, int], ends: dict[str, int]) -> int:
        """Count the missed entries that agents may see.

        If the others were included, an agent could count them with the help of events of its own.
        """
        with self._store().reading() as connection:
            found = [kinds_between(connection, name, seqs[name], ends[name]) for name in ends]
        return sum(number for kinds in found for kind, number in kinds.items() if is_visible_to_agents(kind))

    def _read_batch(
        self, tenant_id: str, after: int, until: int, subscription: Subscription
    ) -> list[tuple[Entry, str | None]]:
        with self._store().reading() as connection:
            found = entries_between(connection, tenant_id, after, until, BATCH_SIZE)
            return [(each, find_agent_recipient(connection, each) if subscription.agent else None) for each in found]

    # --- reading the ledger

    def _watch(self) -> None:
        listener = self._signal.listen()
        try:
            while not self._stop_if_idle():
                try:
                    with self._poll_lock:
                        self._poll()
                except RemitError as problem:  # such as a database that is unavailable for a while
                    _LOG.warning("the ledger could not be read", extra={"why": str(problem)})
                listener.wait(self._poll_interval)
        finally:
            listener.close()

    @property
    def _poll_interval(self) -> float:
        """The time between two reads. It grows with the number of chains, because a read takes time for each."""
        return POLL_SECONDS * max(1.0, len(self._published or ()) / MANY_CHAINS)

    def _stop_if_idle(self) -> bool:
        """Stop reading if there is no listener. Return whether it stopped. The next listener starts a new thread."""
        with self._poll_lock, self._lock:
            if self._listeners and not self._closed:
                return False
            self._thread, self._published = None, None
            return True

    def _poll(self) -> dict[str, int]:
        """Publish new entries in the order of each chain, and return the last published entry of each.

        The first call publishes nothing. It starts at the current end of each chain.
        """
        with self._store().reading() as connection:
            ends = ends_of(connection)
            if self._published is None:
                self._published = ends
                return self._published
            # The end of a session or a token is in the default chain. So that chain comes before the others.
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
        """Remove listeners whose session or token is no longer valid, before they get any of these entries."""
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
        """Hand events over with one call for each event loop. All people get the same text of an event."""
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
        """Select the events of this agent, with positions that name only its own tenants."""
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
    """Whether the caller of a listener is still valid.

    A check that fails, for example because the store is unavailable, removes no listener. The next check decides.
    """
    try:
        return listener.is_valid()
    except EnvironmentFailureError as problem:
        _LOG.warning("the session or token of a listener could not be checked", extra={"why": str(problem)})
        return True


def _deliver(each: Sequence[tuple[Subscription, Sequence[StreamEvent]]]) -> None:
    for listener, sent in each:
        listener.enqueue(sent)


def _call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and its listeners with it
        loop.call_soon_threadsafe(what, *arguments)


__all__ = ["Events", "StreamEvent", "Subscription"]
