"""One sandbox for each set of effects and each build, tried out before anybody relies on it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.config.config import SystemConfig
from remit.core.errors import EnvironmentFailureError, Reason, UsageError
from remit.effects.tasks.capabilities import CAPABILITY
from remit.sandbox import host as host_module
from remit.sandbox import manager as fleet_module
from remit.sandbox import support as confinement
from remit.sandbox.host import InterruptedTaskError
from remit.sandbox.kernel_probes import unsupported
from remit.sandbox.manager import Fleet, import_paths
from remit.sandbox.orders import Build, Order, Quotas
from remit.store.process_identity import lock_path, this_process
from tests.sandbox.hostile_sandbox import PLANS
from tests.sandbox.plain_host import EFFECT as PLAIN
from tests.sandbox.plain_host import MIB
from tests.sandbox.plain_host import order as plain_order
from tests.sandbox.stepping_host import EFFECT, steps
from tests.sandbox.test_host import is_gone


def a_config(**settings: Any) -> SystemConfig:
    return SystemConfig.model_validate({"version": 1, **settings})


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    return tmp_path / "hosts"


@pytest.fixture
def fleet(hosts: Path) -> Iterator[Fleet]:
    made = Fleet(a_config(), hosts)
    yield made
    made.close()


def test_the_same_effects_and_build_have_one_sandbox(fleet: Fleet) -> None:
    first = fleet.host_for((EFFECT,), PLANS)
    assert fleet.host_for((EFFECT,), Build(exchanges=True, open_files=512)) is first
    others = [
        fleet.host_for((EFFECT,)),
        fleet.host_for((EFFECT, PLAIN), PLANS),
        fleet.host_for((EFFECT,), PLANS, Quotas(64 * MIB, MIB, MIB, 1.0)),
    ]
    assert len({id(host) for host in (first, *others)}) == 4


def test_threads_that_ask_at_the_same_time_get_one(fleet: Fleet) -> None:
    with ThreadPoolExecutor(8) as threads:
        hosts = list(threads.map(lambda _: fleet.host_for((EFFECT,), PLANS), range(8)))
    assert len({id(host) for host in hosts}) == 1


def test_it_does_the_orders_of_its_effects(fleet: Fleet) -> None:
    assert fleet.host_for((EFFECT,), PLANS).run(steps("say", messages=[])).output == {}
    assert fleet.host_for((PLAIN,)).run(plain_order("ask")).output == {"answers": [{}] * 3}


def test_children_are_built_as_asked(fleet: Fleet) -> None:
    limits = []
    for build in (Build(), PLANS):
        host = fleet.host_for((PLAIN,), build)
        asked = plain_order("sleep", seconds=0)

        def look(note: Any) -> None:
            text = Path(f"/proc/{note['asleep']}/limits").read_text()
            limits.append(next(line.split()[3] for line in text.splitlines() if line.startswith("Max open files")))

        host.run(asked, on_note=look)
    assert limits == ["64", "512"]


def test_its_quotas_are_those_of_the_configuration_unless_others_are_given(hosts: Path) -> None:
    fleet = Fleet(a_config(timeouts={"file_operation": 1}), hosts)
    try:
        with pytest.raises(InterruptedTaskError, match="longer than 1 seconds"):
            fleet.host_for((EFFECT,), PLANS).run(steps("say", messages=[30.0]))
        patient = fleet.host_for((EFFECT,), PLANS, Quotas(64 * MIB, 64 * MIB, 64 * MIB, 2.0))
        with pytest.raises(InterruptedTaskError, match="longer than 2 seconds"):
            patient.run(steps("say", messages=[30.0]))
    finally:
        fleet.close()


@pytest.mark.req("EI-11")
def test_a_missing_sandbox_is_reported_before_anything_is_claimed(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        confinement.require_confinement(unsupported("Linux", "6.1", "riscv64", "no numbers"))

    monkeypatch.setattr(host_module, "require_confinement_here", refuse)
    fleet = Fleet(a_config(), hosts)
    with pytest.raises(EnvironmentFailureError, match="cannot confine") as failed:
        fleet.host_for((EFFECT,), PLANS)
    assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
    loose = Fleet(a_config(sandbox="unsafe-none"), hosts)
    try:
        assert loose.host_for((EFFECT,), PLANS).run(steps("say", messages=[])).output == {}
    finally:
        loose.close()


def test_one_that_fails_its_trial_is_closed_and_not_kept(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    real = fleet_module.run_trial

    def spoilt(sandbox: Any) -> None:
        tried.append(sandbox)
        with monkeypatch.context() as patch:
            patch.setattr(fleet_module, "_TRIAL", replace(CAPABILITY, effect="remit.effects.tasks.no_effect:MISSING"))
            real(sandbox)

    with monkeypatch.context() as patch:
        patch.setattr(fleet_module, "run_trial", spoilt)
        with pytest.raises(UsageError):
            fleet.host_for((EFFECT,), PLANS)
    with pytest.raises(UsageError, match="is closed"):
        tried[0].run(steps("say", messages=[]))
    assert fleet.host_for((EFFECT,), PLANS) is not tried[0]


def test_closing_ends_every_sandbox(fleet: Fleet, hosts: Path) -> None:
    zygotes = []
    for build in (Build(), PLANS):
        output = fleet.host_for((PLAIN,), build).run(plain_order("look_around")).output
        assert output is not None
        zygotes.append(output["zygote"])
    assert lock_path(hosts, this_process()).exists()
    assert (hosts.stat().st_mode & 0o777) == 0o700
    fleet.close()
    assert all(is_gone(pid) for pid in zygotes)


def test_an_effect_of_no_package_is_a_misuse(fleet: Fleet) -> None:
    with pytest.raises(UsageError, match="no package 'nowhere_at_all'"):
        fleet.host_for(("nowhere_at_all.effects:E",))
    with pytest.raises(UsageError, match="no package 'nowhere_at_all'"):
        fleet.host_for((EFFECT,), Build(packages=("nowhere_at_all",)))


def test_what_effects_import_beside_remit_is_found_where_this_process_finds_it(tmp_path: Path) -> None:
    (effect,) = (Path(place) for place in import_paths([EFFECT]))
    assert (effect / "tests").is_dir()
    found = import_paths([EFFECT], ["pydantic"])
    assert [os.path.isdir(os.path.join(place, "pydantic")) for place in found] == [False, True]


def test_a_package_that_was_named_can_be_imported_by_an_effect(
    hosts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "helper_of_effects").mkdir(parents=True)
    (tmp_path / "elsewhere" / "helper_of_effects" / "__init__.py").write_text("WORD = 'helped'\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "needy_effects.py").write_text(
        "import helper_of_effects\n"
        "class Needy:\n"
        "    def run(self, work): return {'word': helper_of_effects.WORD}\n"
        "    def settle(self, work, *, finish): return None\n"
        "NEEDY = Needy()\n"
    )
    for folder in ("elsewhere", "here"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    effect = "needy_effects:NEEDY"
    asked = Order(effect, "run", "envelope-1", "PLAN", {}, reversible=True, part_name="")
    fleet = Fleet(a_config(), hosts)
    try:
        with pytest.raises(EnvironmentFailureError, match="helper_of_effects"):
            fleet.host_for((effect,), PLANS)
        host = fleet.host_for((effect,), replace(PLANS, packages=("helper_of_effects",)))
        assert host.run(asked).output == {"word": "helped"}
    finally:
        fleet.close()
