"""Kill the server at every fault point that a request passes, and look at what came back."""

from collections.abc import Iterator

from remit.services.services import Services
from tests.crash.web.crash_workspace import Place
from tests.crash.web.killed_server import Gone
from tests.crash.web.scenario import Scenario

QUIET = ("--no-link",)  # each start would write an invitation, and pass points of its own


def faults_of(place: Place, desk: Services, kind: type[Scenario]) -> list[str]:
    """Every point that this request passes in the server, each with how often it was passed before."""
    scenario = kind(place, desk)
    with place.served("announce", words=QUIET) as server:
        scenario.act(server)
        server.kill()
        server.close()
        points, first = server.points, server.points_at_start
    return [f"{point}:{points[: number + 1].count(point)}" for number, point in enumerate(points) if number >= first]


def killed_at(place: Place, desk: Services, kind: type[Scenario], faults: list[str]) -> Iterator[str]:
    """Yields each fault after the server that came back has been looked at."""
    for fault in faults:
        scenario = kind(place, desk)
        with place.served(fault, words=QUIET) as server:
            died = False
            try:
                scenario.act(server)
            except Gone:
                died = True
            # Also what it does after it has answered is done while it is asked to end.
            assert died or server.terminate() in {0, -9}, server.errors
        try:
            with place.served(words=QUIET) as back:  # at once: what outlives the server for a moment is still there
                scenario.check(back)
        except Exception as problem:
            raise AssertionError(f"{kind.__name__} killed at {fault} ({died=}): {problem!r}") from problem
        yield fault
