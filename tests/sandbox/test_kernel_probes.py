"""What the kernel says it can do is what it does, and asking changes nothing."""

import ctypes
import dataclasses
import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from remit.sandbox import kernel_probes as kernel
from remit.sandbox.kernel_probes import (
    KernelFeatures,
    Probe,
    clock_is_synchronised,
    missing_support,
    probe_exchange,
    probe_kernel,
    unsupported,
)

ROOT = Path(__file__).resolve().parents[2]
PROBES = ("landlock", "confinement", "seccomp", "no_new_privs", "openat2", "renameat2")
on_linux = pytest.mark.skipif(platform.system() != "Linux", reason="asks a Linux kernel")


def test_another_system_than_linux_has_nothing_and_says_why() -> None:
    features = unsupported("Darwin", "25.0", "arm64", missing_support("Darwin", "arm64", 2**63 - 1))
    assert {getattr(features, name) for name in PROBES} == {Probe(False, "not Linux")}
    assert features.landlock_abi == 0


@pytest.mark.parametrize(
    "system, machine, word, why",
    [
        ("Linux", "x86_64", 2**63 - 1, ""),
        ("Linux", "aarch64", 2**63 - 1, ""),
        ("Linux", "riscv64", 2**63 - 1, "no system call numbers are known for riscv64"),
        ("Linux", "x86_64", 2**31 - 1, "a 32-bit Python"),
        ("FreeBSD", "x86_64", 2**63 - 1, "not Linux"),
    ],
)
def test_system_calls_are_made_only_where_their_numbers_are_known(
    system: str, machine: str, word: int, why: str
) -> None:
    assert missing_support(system, machine, word) == why


def test_the_answer_cannot_be_changed_afterwards() -> None:
    features = unsupported("Darwin", "25.0", "arm64", "not Linux")
    with pytest.raises(dataclasses.FrozenInstanceError):
        features.landlock_abi = 9  # type: ignore[misc]


@on_linux
def test_the_kernel_underneath_answers_every_question() -> None:
    features = probe_kernel()
    assert (features.system, features.release, features.machine) == (
        platform.system(),
        platform.release(),
        platform.machine(),
    )
    for name in PROBES:
        assert getattr(features, name).found
    assert features.landlock.works == (features.landlock_abi >= kernel.LANDLOCK_NEEDED)
    assert features.landlock.works or not features.confinement.works


@on_linux
def test_asking_leaves_this_process_as_free_as_it_was(tmp_path: Path) -> None:
    status = Path("/proc/self/status")
    watched = ("NoNewPrivs:", "Seccomp:", "Umask:")

    def state() -> list[str]:
        return [line for line in status.read_text().splitlines() if line.startswith(watched)]

    before, descriptors = state(), len(os.listdir("/proc/self/fd"))
    probe_kernel()
    clock_is_synchronised()
    assert state() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    (tmp_path / "still-writable").write_text("yes")
    assert os.listdir("/")


@on_linux
def test_asking_from_a_thread_works_as_well() -> None:
    answers: list[KernelFeatures] = []
    thread = threading.Thread(target=lambda: answers.append(probe_kernel()))
    thread.start()
    thread.join()
    assert answers == [probe_kernel()]


@on_linux
def test_a_kernel_without_the_calls_is_reported_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = 100_000  # no kernel has a call of this number, so it answers ENOSYS as an old one would
    numbers = kernel.Numbers(nowhere, nowhere, nowhere, nowhere, nowhere)
    monkeypatch.setitem(kernel.SYSCALLS, platform.machine(), numbers)
    features = probe_kernel()
    assert features.landlock == Probe(False, "not built into this kernel")
    assert features.landlock_abi == 0
    assert features.confinement == Probe(False, "not tried: Landlock is too old")
    for name in ("seccomp", "openat2", "renameat2"):
        probe = getattr(features, name)
        assert not probe.works
        assert "ENOSYS" in probe.found


@on_linux
def test_whether_two_files_can_change_places_is_tried_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert probe_exchange(str(tmp_path)) == Probe(True, "two files can be exchanged in one step")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@on_linux
def test_a_file_system_that_cannot_exchange_is_distinguished_from_a_missing_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = probe_exchange(str(tmp_path / "nowhere"))
    assert (nowhere.works, nowhere.tried) == (False, False)
    monkeypatch.setattr(kernel, "_RENAME_EXCHANGE", 1 << 7)  # a flag that no file system knows: EINVAL, as of NFS
    refused = probe_exchange(str(tmp_path))
    assert (refused.works, refused.tried) == (False, True)
    assert "EINVAL" in refused.found
    assert not list(tmp_path.iterdir())


@on_linux
def test_a_trial_that_cannot_start_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    if kernel.probe_kernel().landlock.works:
        assert probe_kernel().confinement == Probe(False, "the trial process did not run: FileNotFoundError")
    else:
        assert not probe_kernel().confinement.works


@on_linux
def test_the_clock_answer_is_the_one_libc_gives() -> None:
    """`ntp_adjtime` returns TIME_ERROR (5) exactly when the kernel's clock is not disciplined."""
    raw = ctypes.create_string_buffer(1024)
    state = ctypes.CDLL(None).ntp_adjtime(raw)
    answer = clock_is_synchronised()
    assert answer is None if state < 0 else answer is (state != 5)


@on_linux
def test_an_ordinary_user_can_confine_itself_too() -> None:
    """Privileges are dropped after the imports: the interpreter may lie where an ordinary user cannot read."""
    if not probe_kernel().confinement.works:
        pytest.skip("this kernel cannot confine a process, root's or anybody's")
    program = (
        "import json, os; from remit.sandbox import kernel_probes as kernel\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "print(json.dumps([os.geteuid(), *kernel._confine_this_process()]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    user, code, said = json.loads(done.stdout)
    assert user != 0
    assert (code, said) == (0, "a process that dropped its rights was refused")
