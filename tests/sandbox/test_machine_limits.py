"""Limits of the machine or of this process: told as what they are, never blamed on the kernel, never for ever."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.sandbox import kernel_probes as kernel
from remit.sandbox import support as confinement
from remit.sandbox.kernel_probes import Probe
from tests.sandbox.plain_host import ROOT, order, plain_host
from tests.sandbox.zygotes import kill_for_good, zygote_of


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    confinement.require_confinement_here.cache_clear()
    yield
    confinement.require_confinement_here.cache_clear()


@pytest.mark.usefixtures("fresh_probe")
def test_a_probe_that_could_not_be_made_is_made_again_and_advises_nothing_unsafe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    with plain_host(tmp_path) as host:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "run", no_room)
            with pytest.raises(EnvironmentFailureError, match="could not test") as failed:
                host.run(order("answer"))
        assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
        assert "unsafe" not in failed.value.next_step
        assert host.run(order("answer")).output is not None


@pytest.mark.usefixtures("fresh_probe")
def test_a_process_without_descriptors_says_so_and_runs_tasks_when_it_has_some_again(tmp_path: Path) -> None:
    """However few there are, it is never the kernel that is said to be at fault."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = []
    with plain_host(tmp_path) as host:
        for room in range(30):
            os.close(lowest := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, hard))
            try:
                host.run(order("answer"))
                break
            except EnvironmentFailureError as problem:
                said.append(problem)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert said
        assert not [problem for problem in said if "unsafe" in problem.next_step]
        assert host.run(order("answer")).output is not None


@pytest.mark.usefixtures("fresh_probe")
def test_a_kernel_that_confines_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def probe() -> kernel.KernelFeatures:
        asked.append(1)
        return kernel.probe_kernel()

    monkeypatch.setattr(confinement, "probe_kernel", probe)
    with plain_host(tmp_path) as host:
        for _ in range(3):
            kill_for_good(zygote_of(host))
        host.run(order("answer"))
    assert len(asked) == 1


def test_one_true_no_among_what_could_not_be_tried_is_still_not_the_kernels_fault() -> None:
    real = kernel.probe_kernel()
    fields = {name: getattr(real, name) for name in real.__dataclass_fields__}
    fields["confinement"] = Probe(False, "the trial process did not run: OSError", tried=False)
    with pytest.raises(EnvironmentFailureError) as failed:
        confinement.require_confinement(kernel.KernelFeatures(**fields))
    assert "unsafe" not in failed.value.next_step


_FEW = """
import resource, sys
from pathlib import Path
resource.setrlimit(getattr(resource, sys.argv[2]), (int(sys.argv[3]),) * 2)
from tests.sandbox.plain_host import order, plain_host
with plain_host(Path(sys.argv[1])) as host:
    print(host.run(order("answer")).output["task"])
"""


def _run_with_few(folder: Path, which: str, most: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _FEW, str(folder), which, str(most)],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("which, most", [("RLIMIT_NOFILE", 40), ("RLIMIT_FSIZE", 1 << 20)])
def test_a_lower_limit_of_the_machines_is_kept_and_tasks_still_run(tmp_path: Path, which: str, most: int) -> None:
    """Nobody may raise a hard limit, and a sandboxed process has no privilege to."""
    done = _run_with_few(tmp_path, which, most)
    deadline = time.monotonic() + 80
    # What other tests of this user have on its way counts too.
    while "Too many references" in done.stderr and time.monotonic() < deadline:
        time.sleep(0.5)
        done = _run_with_few(tmp_path, which, most)
    assert done.stdout.strip() == "task-1", done.stderr


def test_what_idle_hosts_keep_ready_leaves_room_for_others(tmp_path: Path) -> None:
    """The kernel counts descriptors on their way by user, and holds the sender's limit against the sum."""
    with ExitStack() as open_hosts:
        hosts = [open_hosts.enter_context(plain_host(tmp_path / str(number))) for number in range(12)]
        assert [host.run(order("answer")).output for host in hosts] == [hosts[0].run(order("answer")).output] * 12
