"""kill -9 of the process that holds the browser, at every durable step: nothing is sent twice, and that is recorded."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from remit.browser.checkpoint import RequestOutcome
from remit.browser.recovery import read_state
from remit.contracts.browser.browser import ActionResult
from tests.browser.service.browser_workspace import Place, made_place
from tests.support import preloaded
from tests.support.child_process import ChildExit, Fault, run_child
from tests.support.sampling import some

pytestmark = pytest.mark.req("VX-07", "VX-12")

FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'

CHILD = """
import sys, threading
from remit.identity.person import Person
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace

with Workspace.open(sys.argv[1]) as workspace:
    def approve(approval):
        yes = lambda: workspace.approvals.decide(approval.approval_id, approved=True, who=Person("os:somebody"))
        threading.Thread(target=yes).start()
    for action in sys.argv[3:]:
        acknowledge(workspace.browse(action.encode(), sys.argv[2], on_waiting=approve).action_id)
"""

# The navigation is the first on the road, the click the second, its request the third; the request ends before it.
# How many requests arrived, and what recovery says of the action: the yes is used with the intent of the request.
POINTS = [
    pytest.param(Fault("browser.asked"), 0, "not sent", id="asked"),
    pytest.param(Fault("browser.answered"), 0, "not sent", id="answered"),
    pytest.param(Fault("road.checkpoint_made", 3), 0, "not sent", id="yes not used yet"),
    pytest.param(Fault("road.intent_recorded", 3), 0, "unknown", id="intent of the request"),
    pytest.param(Fault("browser.released"), None, "unknown", id="released"),
    pytest.param(Fault("browser.ended"), 1, "unknown", id="answered by the server"),
    pytest.param(Fault("road.outcome_recorded", 2), 1, "sent", id="outcome of the request"),
    pytest.param(Fault("road.effect_done", 3), 1, "sent", id="action done"),
]
ADVICE = {"not sent": "safe to ask for it again", "unknown": "Look at the site", "sent": "does not send it again"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> object:
    """This module has no browser in its own process."""
    return tmp_path_factory


def run(place: Place, actions: list[bytes], fault: Fault | None) -> ChildExit:
    workspace = place.workspace
    command = [preloaded.python(), "-c", CHILD, str(workspace.root), place.token, *(each.decode() for each in actions)]
    return run_child(command, fault=fault, environment=dict(workspace.environ))


@pytest.mark.parametrize("fault, arrived, said", some(POINTS, 3))
def test_a_killed_host_sends_nothing_twice_and_leaves_a_record_that_says_what_is_known(
    tmp_path: Path, fault: Fault, arrived: int | None, said: str
) -> None:
    with made_place(tmp_path) as place:
        place.site.routes |= {"/": FORM, "/act": "<title>done</title>"}
        navigate, click = place.action("navigate"), place.action("click", selector="#go")
        ended = run(place, [navigate, click], fault)
        assert ended.killed, ended
        assert ended.acknowledged == ("act-1",)
        sent = len(place.site.posts())
        assert sent in ({0, 1} if arrived is None else {arrived})
        assert_no_browser_is_left(tmp_path)
        assert place.workspace.approvals.listed("PENDING") == [], "a question of a dead host is listed as waiting"
        recovered = {report.key: report.outcome for report in place.workspace.recover()}
        requests = [outcome for outcome in recovered.values() if isinstance(outcome, RequestOutcome)]
        assert all(outcome.state == "UNKNOWN" for outcome in requests)
        cut_short = recovered["act-2"]
        assert isinstance(cut_short, ActionResult)
        assert read_state(cut_short) == said
        assert (cut_short.sent > 0) == (said != "not sent")
        assert ADVICE[said] in str(cut_short.error)
        states = {approval.state for approval in place.workspace.approvals.listed()}
        assert states <= {"VOID", "USED"}, "a question of a dead host can still be answered"
        assert bool(requests) == (
            states == {"USED"} and fault.point not in {"road.outcome_recorded", "road.effect_done"}
        )
        again = place.workspace.browse(click, place.token)
        assert not again.success
        assert again.error is not None
        assert again.error.code == "KERNEL_ERROR"
        assert len(place.site.posts()) == sent, "it was sent again"
        assert place.workspace.recover() == []
        assert place.workspace.verify_ledger().holds
        assert place.payloads("browser.action")[-1]["success"] is False


def assert_no_browser_is_left(folder: Path) -> None:
    listed = subprocess.run(["/bin/ps", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True).stdout
    left = [line for line in listed.splitlines() if str(folder) in line and "chromium" in line and " Z" not in line]
    assert left == []


def test_a_host_that_ends_in_peace_leaves_nothing_open(tmp_path: Path) -> None:
    with made_place(tmp_path) as place:
        place.site.routes |= {"/": FORM, "/act": "<title>done</title>"}
        ended = run(place, [place.action("navigate"), place.action("click", selector="#go")], None)
        assert ended.exit_code == 0, ended
        assert ended.acknowledged == ("act-1", "act-2")
        assert place.workspace.recover() == []
        assert json.loads(place.workspace.approvals.listed()[0].canonical())["state"] == "USED"
        assert os.listdir(place.workspace.state.path / "browser" / "run") == []
