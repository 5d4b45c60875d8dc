"""`remit browse` without a browser: what is refused before one is asked, and what is said while it waits."""

import json
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from remit.browser_daemon.framing import receive_frame, send_frame
from remit.browser_daemon.socket_path import DaemonFolder
from remit.cli import browse as browsing
from remit.cli.browse import write_picture
from remit.core.errors import Reason, RefusedError
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("browse")
    (folder / "project").mkdir()
    with initialise(folder / "project", {"REMIT_STATE": str(folder / "state")}, system_clock)[0] as made:
        yield made


def run(workspace: Workspace, *words: str, action: str = "", **environ: str) -> Result:
    file = workspace.root / "action.json"
    file.write_text(json.dumps({"action_id": "a", "type": action, "target": "https://shop.test/"}))
    arguments = [*([str(file)] if action else []), *words, "-C", str(workspace.root)]
    return CliRunner().invoke(browsing.browse, arguments, env={**workspace.environ, **environ})


def refused(ran: Result) -> RefusedError:
    assert isinstance(ran.exception, RefusedError), ran.output
    assert ran.exception.exit_code == 2
    return ran.exception


def test_a_token_file_that_is_not_there_is_refused_and_half_a_token_is_not_repeated(workspace: Workspace) -> None:
    problem = refused(run(workspace, "--token", "nowhere.token", action="navigate"))
    assert ("cannot be read" in problem.what, problem.where) == (True, "nowhere.token")
    assert refused(run(workspace, "--token", "eyJhbGciOi", action="navigate")).where == "--token"


@pytest.mark.req("VX-09")
@pytest.mark.parametrize("variable", ["REMIT_TOKEN", "REMIT_AGENT"])
def test_an_agent_cannot_stop_the_browser_that_all_callers_share(workspace: Workspace, variable: str) -> None:
    assert "an agent cannot do it" in refused(run(workspace, "--stop", **{variable: "agent-1"})).what
    assert run(workspace, "--stop").output == "No browser was running.\n"


def test_a_picture_goes_to_a_new_file_only(workspace: Workspace, tmp_path: Path) -> None:
    there = tmp_path / "there.png"
    there.write_bytes(b"precious")
    for action, path, reason in (
        ("navigate", tmp_path / "new.png", Reason.ARGUMENT_INVALID),
        ("screenshot", tmp_path / "missing" / "new.png", Reason.ARGUMENT_INVALID),
        ("screenshot", there, Reason.FILE_CONFLICT),
    ):
        assert refused(run(workspace, "-o", str(path), action=action, REMIT_TOKEN="t")).reason is reason
    assert there.read_bytes() == b"precious"


@pytest.mark.req("VX-05")
def test_a_picture_is_its_owners_alone_and_may_be_asked_for_again(tmp_path: Path) -> None:
    kept, target, link = tmp_path / "kept.png", tmp_path / "mine.png", tmp_path / "link.png"
    kept.write_bytes(b"\x89PNG")
    output = {"screenshot": {"path": str(kept), "sha256": sha256(b"\x89PNG").hexdigest()}}
    for _ in range(2):
        write_picture(target, output)
        assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"\x89PNG", 0o600)
    link.symlink_to(kept)
    target.write_bytes(b"other")
    for path in (link, target):
        with pytest.raises(RefusedError, match="already"):
            write_picture(path, output)
    assert target.read_bytes() == b"other"


@contextmanager
def host_saying(workspace: Workspace, *frames: dict[str, Any]) -> Iterator[None]:
    """A host that says this to one caller, and hangs up."""
    place = DaemonFolder.of(workspace.state)
    place.make()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            receive_frame(connection)
            for frame in frames:
                send_frame(connection, frame)

    with place.listen() as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join()
            place.clear()


@pytest.mark.req("VX-09")
def test_a_caller_who_stops_waiting_learns_that_the_approval_request_stays_open(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(browsing, "_print_notice", interrupt)  # the moment at which a person presses Ctrl-C
    question = {"approval_id": "q-1", "state": "PENDING", "expires": "2026-11-16T10:31:00Z", "what": "Sends 1 field."}
    with host_saying(workspace, {"retrying": 1}, {"waiting": question}):
        ran = run(workspace, "--wait", action="navigate", REMIT_TOKEN="ey.x.y")
    assert ran.exit_code == 3
    assert "Trying again (1 of 3)" in ran.output
    assert "remit approvals deny q-1; until then it can still be approved" in ran.output
