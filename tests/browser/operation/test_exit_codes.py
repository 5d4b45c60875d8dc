"""What `remit browse` says with its exit code: whether anything was sent, and whether a person is waited for."""

import json
import threading
from pathlib import Path

import pytest

from remit.browser_daemon import client as clients
from remit.browser_daemon.client import ActionReply, HostClient, PendingApproval
from remit.browser_daemon.framing import receive_frame, send_frame
from remit.browser_daemon.socket_path import DaemonFolder
from remit.cli.browse import _print_waiting, exit_code
from remit.contracts.browser.browser import ActionResult
from remit.contracts.browser.errors import EXECUTOR_ERROR, AnyExecutorError
from tests.contracts.operation_examples import BROWSER


def failed(error: AnyExecutorError, sent: int = 0) -> ActionResult:
    return ActionResult(action_id="a", success=False, reason="why", error=error, sent=sent)


@pytest.mark.req("VX-11")
def test_the_exit_code_says_whether_anything_was_sent() -> None:
    assert exit_code(ActionResult(action_id="a", success=True, sent=1), refused=False) == 0
    trees = [tree for name, tree in BROWSER.items() if name.startswith("executor-error")]
    errors = {tree["code"]: EXECUTOR_ERROR.from_tree(tree) for tree in trees}
    assert len(errors) == 9
    for code, error in errors.items():
        begun = 1 if code == "KERNEL_ERROR" else 2
        assert exit_code(failed(error), refused=False) == begun, code
        assert exit_code(failed(error), refused=True) == 2, code
        assert exit_code(failed(error, sent=1), refused=False) == 1, code


def told_by_a_host(place: DaemonFolder, state: str) -> tuple[ActionReply | None, list[PendingApproval]]:
    """What somebody gets who does not wait, from a host that says this of a question and then nothing more."""
    place.make()
    over = threading.Event()
    question = {"approval_id": "q-1", "state": state, "expires": "2026-11-16T10:31:00Z", "what": "Sends 1 field."}

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            receive_frame(connection)
            send_frame(connection, {"waiting": question})
            over.wait(20)

    heard: list[PendingApproval] = []

    def on_waiting(waiting: PendingApproval) -> bool:
        heard.append(waiting)
        return False

    with place.listen() as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        answered = HostClient(place.folder, place, {}).browse(b"{}", "token", on_waiting=on_waiting)
        over.set()
        thread.join()
    return answered, heard


@pytest.mark.req("VX-09")
@pytest.mark.parametrize(
    "state, word", [("PENDING", "waiting for a person"), ("APPROVED", "approved, being sent"), ("USED", "being sent")]
)
def test_a_caller_who_does_not_wait_learns_whether_the_request_waits_for_a_person_or_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, word: str
) -> None:
    monkeypatch.setattr(clients, "SENDING_SECONDS", 0.05)
    answered, heard = told_by_a_host(DaemonFolder(tmp_path / "browser" / "host"), state)
    assert answered is None
    _print_waiting(heard[0], as_json=True)
    told = json.loads(capsys.readouterr().out)["waiting"]
    assert told["approval_id"] == "q-1"
    assert word in told["state"]
    _print_waiting(heard[0], as_json=False)
    assert ("remit approvals show q-1" in capsys.readouterr().out) == (state == "PENDING")
