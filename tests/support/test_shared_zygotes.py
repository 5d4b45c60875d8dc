"""What the tests themselves rely on: zygotes that are kept, or forked, serve as those that were started do."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from remit.effects.tasks import capabilities as no_effect_capability
from remit.sandbox.host import SandboxHost
from remit.sandbox.manager import import_paths, run_trial
from remit.sandbox.orders import Order, Quotas
from tests.support import preloaded
from tests.support.shared_zygotes import sharing_zygotes

pytestmark = pytest.mark.skipif(preloaded.is_fresh(), reason="REMIT_TEST_FRESH=1 turns it off")

EFFECTS: Final = (no_effect_capability.CAPABILITY.effect,)
QUOTAS: Final = Quotas(1 << 28, 1 << 20, 1 << 20, 5.0)
ORDER: Final = Order(EFFECTS[0], "run", "t", "NO_EFFECT", {}, reversible=True, part_name="")
PROGRAM: Final = """
import json, sys
from pathlib import Path
from remit.sandbox.manager import run_trial
from tests.sandbox.zygotes import kill_for_good
from tests.support.test_shared_zygotes import made, zygote_of
with made(Path(sys.argv[1])) as host:
    run_trial(host)
    zygote = host._zygote
    first = zygote.pid
    kill_for_good(first)
    run_trial(host)
    print(json.dumps([type(zygote._process).__name__, zygote.exit_description(), first, zygote_of(host)]))
"""


def made(folder: Path, quotas: Quotas = QUOTAS) -> SandboxHost:
    return SandboxHost(EFFECTS, quotas, lock=folder / "lock", import_paths=import_paths(EFFECTS))


def zygote_of(host: SandboxHost) -> int:
    zygote = host._zygote  # noqa: SLF001 - nobody else needs to know it
    assert zygote is not None
    return zygote.pid


def test_the_next_host_of_the_same_kind_has_the_same_zygote_and_all_end_with_the_shelf(tmp_path: Path) -> None:
    used: list[int] = []
    with sharing_zygotes():
        for quotas in (QUOTAS, QUOTAS, Quotas(1 << 27, 1 << 20, 1 << 20, 5.0)):
            with made(tmp_path, quotas) as host:
                run_trial(host)
                used.append(zygote_of(host))
        assert used[0] == used[1] != used[2]
    for pid in used:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_one_that_died_or_has_a_child_at_work_is_not_kept(tmp_path: Path) -> None:
    with sharing_zygotes():
        with made(tmp_path) as host:
            run_trial(host)
            first = zygote_of(host)
            os.kill(first, signal.SIGKILL)
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        with made(tmp_path) as host:
            standing = host.prewarm(ORDER)
            second = zygote_of(host)
        with made(tmp_path) as host:
            run_trial(host)
            assert len({first, second, zygote_of(host)}) == 3
        standing.dismiss()


def test_a_program_gets_forked_zygotes_that_are_reported_like_started_ones(tmp_path: Path) -> None:
    command = [preloaded.python(), "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).resolve().parents[2])
    assert done.returncode == 0, done.stderr.decode()
    kind, ended, first, second = json.loads(done.stdout)
    assert (kind, ended) == ("Started", "signal 9")
    assert first != second
