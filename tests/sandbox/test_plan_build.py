"""Children that are made for plans: files change places, many folders and descriptors, a plan that stays as it is."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.sandbox.framing import MAX_GIVEN
from remit.sandbox.host import SandboxHost
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import Build
from tests.sandbox import exchanges, test_quota_kills
from tests.sandbox.hostile_sandbox import PLANS, TASKS
from tests.sandbox.plain_host import open_descriptors
from tests.sandbox.stepping_host import place, stepping_host, steps
from tests.sandbox.test_quota_kills import as_nobody, interpreter_for_nobody

place_of_nobody = test_quota_kills.place_of_nobody

MADE: Final = {
    "in one folder": "",
    "with nothing": "ENOENT",
    "with a folder": "EACCES",
    "with a link": "EACCES",
    "across two folders": "",
    "with one outside": "EACCES",
    "in a folder to read": "EACCES",
}
"""What Landlock makes of each. To exchange needs the rights to remove and to make a file, and for no other thing."""
EXCHANGED: Final = {"one a": "a of two", "one b": "a of one", "two a": "b of one", "two b": "b of two"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with stepping_host(tmp_path_factory.mktemp("plans")) as made:
        yield made


@pytest.mark.req("FX-11")
def test_two_files_of_its_folders_change_places_and_nothing_else_does(tmp_path: Path) -> None:
    exchanges.make_files(tmp_path)
    assert exchanges.run_trial(tmp_path) == MADE
    assert exchanges.contents(tmp_path) == EXCHANGED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; the test above ran as this user")
@pytest.mark.req("FX-11")
def test_so_it_is_for_an_ordinary_user(place_of_nobody: Path) -> None:
    code = place_of_nobody / "code"
    program = ["-m", "tests.sandbox.exchanges", str(place_of_nobody / "files")]
    command = as_nobody(interpreter_for_nobody(code), code, *program)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place_of_nobody)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"uid": 65534, "found": MADE, "contents": EXCHANGED}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no filesystem in memory")  # noqa: S108
def test_so_it_is_on_a_filesystem_in_memory() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        exchanges.make_files(Path(folder))
        assert exchanges.run_trial(Path(folder)) == MADE


@pytest.mark.req("FX-11")
def test_a_task_can_exchange_nothing(tmp_path: Path) -> None:
    exchanges.make_files(tmp_path)
    before = exchanges.contents(tmp_path)
    assert set(exchanges.run_trial(tmp_path, TASKS).values()) == {"EPERM"}
    assert exchanges.contents(tmp_path) == before


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("flags", [0, 4])
def test_replacing_and_leaving_a_device_behind_stay_refused(host: SandboxHost, tmp_path: Path, flags: int) -> None:
    exchanges.make_files(tmp_path)
    asked = steps(
        "exchange", places={"one": place(tmp_path / "one", "a")}, first=("one", "a"), second=("one", "b"), flags=flags
    )
    assert host.run(asked).output == {"error": "EPERM"}
    assert (tmp_path / "one" / "b").read_text() == "b of one"


@pytest.mark.parametrize("build", [PLANS, TASKS])
@pytest.mark.parametrize("flags, error", [(2, ""), (1, "EPERM"), (4, "EPERM")])
def test_writing_can_be_begun_but_not_waited_for(tmp_path: Path, build: Build, flags: int, error: str) -> None:
    (tmp_path / "files").mkdir()
    with stepping_host(tmp_path, build=build) as host:
        asked = steps("start_writing", places={"target": place(tmp_path / "files", "target")}, flags=flags)
        assert host.run(asked).output == {"error": error}


# --- descriptors -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def numbered_files(count: int) -> Iterator[dict[str, int]]:
    with contextlib.ExitStack() as stack:
        yield {
            f"backup-{number}": stack.enter_context(sealed("backup", str(number).encode())) for number in range(count)
        }


def test_a_hundred_and_twenty_descriptors_reach_the_child_and_no_more_are_taken(host: SandboxHost) -> None:
    assert MAX_GIVEN == PLANS.max_descriptors == 120
    with numbered_files(121) as given:
        first = dict(list(given.items())[:120])
        assert host.run(steps("count_given"), given=first).output == {"given": sum(range(120))}
        with pytest.raises(UsageError, match="at most 120 descriptors"):
            host.run(steps("count_given"), given=given)


def test_a_task_is_given_eight(tmp_path: Path) -> None:
    with stepping_host(tmp_path, build=TASKS) as host, numbered_files(9) as given:
        first = dict(list(given.items())[:8])
        assert host.run(steps("count_given"), given=first).output == {"given": sum(range(8))}
        with pytest.raises(UsageError, match="at most 8 descriptors"):
            host.run(steps("count_given"), given=given)


@pytest.mark.req("FX-11")
def test_two_hundred_folders_and_a_hundred_and_twenty_descriptors_go_together(
    host: SandboxHost, tmp_path: Path
) -> None:
    names = [f"folder-{number}" for number in range(200)]
    for name in names:
        (tmp_path / name).mkdir()
    places = {name: place(tmp_path / name, "new") for name in names}
    with numbered_files(120) as given:
        finished = host.run(steps("write_everywhere", places=places), given=given)
    assert finished.output == {"folders": 200}
    assert all((tmp_path / name / "new").exists() for name in names)


# --- what is too large for an order ----------------------------------------------------------------------------------


def test_a_plan_of_many_megabytes_crosses_over(host: SandboxHost) -> None:
    plan = b"x" * (12 << 20) + b"tail"
    before = open_descriptors()
    with sealed("plan", plan) as descriptor:
        asked = steps("read_plan", most=len(plan))
        assert host.run(asked, given={"plan": descriptor}).output == {"bytes": len(plan), "ends": "tail"}
        assert host.run(asked, given={"plan": descriptor}).output == {"bytes": len(plan), "ends": "tail"}
    assert open_descriptors() == before


def test_an_empty_one_does(host: SandboxHost) -> None:
    with sealed("plan", b"") as descriptor:
        assert host.run(steps("read_plan", most=0), given={"plan": descriptor}).output == {"bytes": 0, "ends": ""}


def test_one_that_is_larger_than_agreed_is_not_read(host: SandboxHost) -> None:
    with sealed("plan", b"123456") as descriptor, pytest.raises(RefusedError, match="6 bytes, and at most 5") as failed:
        host.run(steps("read_plan", most=5), given={"plan": descriptor})
    assert failed.value.reason is Reason.TOO_LARGE


def test_children_that_read_it_at_the_same_time_each_get_all_of_it(host: SandboxHost) -> None:
    plan = b"x" * (6 << 20) + b"tail"
    with sealed("plan", plan) as descriptor, ThreadPoolExecutor(4) as lanes:
        asked = steps("read_plan", most=len(plan))
        outputs = lanes.map(lambda _: host.run(asked, given={"plan": descriptor}).output, range(8))
        assert list(outputs) == [{"bytes": len(plan), "ends": "tail"}] * 8


@pytest.mark.req("EI-17")
def test_no_child_can_change_the_plan_of_another(host: SandboxHost) -> None:
    with sealed("plan", b"the plan") as descriptor:
        output = host.run(steps("spoil_plan"), given={"plan": descriptor}).output
        assert output == {"errors": ["EPERM", "EPERM", "EPERM", "EPERM"]}
        assert os.pread(descriptor, 100, 0) == b"the plan"


def test_without_a_descriptor_for_it_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(EnvironmentFailureError, match="Too many open files") as failed, sealed("plan", b""):
        pytest.fail("there is none")
    assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
