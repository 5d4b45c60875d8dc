"""The server ends while something runs: by kill -9 in the middle of it, or asked to by SIGTERM.

The next server is started at once, as a supervisor does, while what the dead one had started may still be there.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.services.services import Services
from tests.crash.web.access_scenarios import LogIn
from tests.crash.web.crash_workspace import AFTER, BEFORE, Place
from tests.crash.web.killed_server import Server
from tests.crash.web.plan_scenarios import Apply, Approve, Undo
from tests.crash.web.scenario import Scenario
from tests.crash.web.scenarios import Confirm, Task
from tests.crash.web.sweep import killed_at
from tests.governed_functions.customer_workspace import Place as Calls
from tests.governed_functions.killed_program import Killed, again
from tests.support.patience import SOON
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.task_workspace import MovableClock

__all__ = ["zygotes_are_shared"]

MANY = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("running"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def desk(place: Place) -> Iterator[Services]:
    with Services(place.workspace) as made:
        yield made


@pytest.mark.parametrize(
    "kind, fault",
    [
        (Approve, "proposal.approved"),
        (Apply, "road.intent_recorded"),
        pytest.param(Apply, "road.effect_done", marks=pytest.mark.long),
        (Undo, "road.effect_done"),
        pytest.param(Task, "road.effect_done", marks=pytest.mark.long),
        (Confirm, "road.effect_done"),
        (LogIn, "durable.renamed"),
    ],
)
def test_a_few_of_the_points_at_which_it_can_be_killed(
    place: Place, desk: Services, kind: type[Scenario], fault: str
) -> None:
    assert list(killed_at(place, desk, kind, [fault])) == [fault]
    assert place.unfinished() == 0
    place.require_sound()


class Slow:
    """A plan that takes a while, approved."""

    def __init__(self, place: Place, server: Server) -> None:
        name = place.fresh("slow")
        self.place, self.files = place, [f"{name}/{number}.txt" for number in range(MANY)]
        (place.root / name).mkdir()
        self.at = place.propose(server, *self.files)
        place.decide(server, self.at)

    def begin(self, server: Server) -> None:
        answer = server.post(f"{self.at}/apply", {}, self.place.bot, Prefer="respond-async")
        assert answer.status in {200, 202}, answer.body

    def begin_and_see_it_run(self, server: Server) -> None:
        """Until the files are being changed, as far as that can be seen from outside."""
        self.begin(server)
        for _ in range(10_000):
            now = server.tree(self.at, self.place.bot)
            if (now["progress"] or {}).get("phase") == "RUNNING" or now["state"] not in {"APPROVED", "RUNNING"}:
                return
        raise AssertionError("it does not run")

    def check(self, server: Server, states: set[str]) -> str:
        """All files or none, as the server says."""
        state = str(server.tree(self.at, self.place.bot)["state"])
        assert state in states, state
        found = {self.place.read(name) for name in self.files}
        assert found == {AFTER if state == "APPLIED" else BEFORE}, (state, found)
        again = server.post(f"{self.at}/apply", {}, self.place.bot).tree.get("state")
        assert again == ("APPLIED" if state == "APPROVED" else state)
        self.place.require_sound()
        return state


def test_a_call_of_a_program_that_was_killed_is_reported_and_left_to_that_program(place: Place, tmp_path: Path) -> None:
    """The server does not have the function, so it can neither finish nor undo the call; and does not mind."""
    one = Killed(Calls(place.workspace, MovableClock()), tmp_path, "undoable", "call.returned")
    assert one.ended.killed, one.ended
    for _ in range(2):
        with place.served() as server:
            assert server.said["recovered"] == 1
            assert "unsettled" in server.errors
            assert one.key in server.errors
            assert server.tree("/v1/inbox", place.admin)["items"] == []
            server.kill()
    assert one.written() == [1, 2]
    result = again(one).result
    assert result is not None
    assert (result.status, one.written()) == ("SUCCESS", [1, 2, 1, 2]), "undone first, then done once"
    assert place.unfinished() == 0


KILLED = {"APPLIED", "ROLLED_BACK", "FAILED"}


def test_a_server_that_was_killed_while_files_change_recovers_before_it_answers(place: Place) -> None:
    with place.served() as server:
        slow = Slow(place, server)
        slow.begin_and_see_it_run(server)
        server.kill()
    with place.served() as server:
        slow.check(server, KILLED)
    assert place.unfinished() == 0


def test_a_server_that_is_asked_to_end_undoes_running_work_and_ends_in_order(place: Place) -> None:
    with place.served() as server:
        slow = Slow(place, server)
        slow.begin_and_see_it_run(server)
        began = time.monotonic()
        assert server.terminate() == 0, server.errors
        assert "Traceback" not in server.errors
        assert time.monotonic() - began < SOON
    assert place.unfinished() == 0, "it is left to recovery"
    with place.served() as server:
        assert server.said["recovered"] == 0
        slow.check(server, {"APPLIED", "CANCELLED"})


@pytest.mark.slow_crash
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("way", ["kill", "terminate"])
def test_at_any_moment_of_a_plan(place: Place, way: str) -> None:
    """Also while a sandboxed process does the work, where no fault point of the server's own is."""
    seen: set[str] = set()
    for step in range(24):
        with place.served() as server:
            slow = Slow(place, server)
            slow.begin(server)
            time.sleep(step * 0.03)
            if way == "kill":
                server.kill()
            else:
                assert server.terminate() == 0, server.errors
        with place.served() as server:
            seen.add(slow.check(server, {*KILLED, "CANCELLED", "APPROVED"}))
        assert place.unfinished() == 0
    assert len(seen) > 1, f"all of them ended alike: {seen}"
