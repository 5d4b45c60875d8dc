"""An honest effect, its answer, and every way in which it may fail to give one."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.sandbox import support as confinement
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.kernel_probes import unsupported
from remit.sandbox.orders import Quotas
from remit.sandbox.zygote_pool import AHEAD
from tests.sandbox.plain_host import MIB, QUOTAS, open_descriptors, order, plain_host
from tests.support.patience import SOON

LONG = os.environ.get("REMIT_LONG") == "1"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with plain_host(tmp_path_factory.mktemp("host")) as made:
        yield made


def test_an_effect_sees_its_order_and_its_answer_and_notes_come_back(host: SandboxHost, tmp_path: Path) -> None:
    given = replace(
        order("answer", folder=tmp_path, more=[1, {"ü": None}]),
        before={"source": {"size_low": 5}},
        checkpoint={"snapshot": None},
    )
    finished = host.run(given)
    assert finished.output == {
        "task": "task-1",
        "inputs": {"call": "answer", "more": [1, {"ü": None}]},
        "part": ".remit-0.part",
        "reversible": True,
        "spots": {name: [str(tmp_path / name), name] for name in ("source", "target")},
        "before": {"source": {"size_low": 5}},
        "checkpoint": {"snapshot": None},
    }
    assert finished.notes == ({"first": 1}, {"second": "zwei"})
    assert 0 < finished.usage.seconds < SOON


@pytest.mark.req("EI-10")
def test_the_resources_that_a_task_used_are_reported_however_short_it_was(host: SandboxHost, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * MIB)
    finished = host.run(order("copy", folder=tmp_path))
    assert finished.output == {"copied": MIB}
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640
    assert finished.usage.read_bytes >= MIB
    assert finished.usage.write_bytes >= MIB


@pytest.mark.req("EI-10")
def test_a_quota_holds_for_a_task_that_is_done_before_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * MIB)
    with plain_host(tmp_path / "state", replace(QUOTAS, read_bytes=MIB // 2)) as host:
        with pytest.raises(InterruptedTaskError, match="read more than 524,288 bytes") as cut:
            host.run(order("copy", folder=tmp_path))
        assert cut.value.reason is Reason.RESOURCE_EXHAUSTED
        assert cut.value.usage.read_bytes >= MIB


@pytest.mark.parametrize("how, finish", [("finish", True), ("undo", False)])
def test_what_was_noted_reaches_the_one_who_settles(host: SandboxHost, how: Any, finish: bool) -> None:  # noqa: FBT001
    settled = host.run(replace(order("", how=how), notes=({"made": 7},)))
    assert settled.output == {"finish": finish, "notes": [{"made": 7}]}
    assert host.run(order("", how=how)).output is None


def test_a_descriptor_that_was_given_can_be_read(host: SandboxHost, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept for later")
    with (tmp_path / "kept").open("rb") as kept:
        assert host.run(order("read_given"), given={"content": kept.fileno()}).output == {"content": "kept for later"}


@pytest.mark.parametrize("kind", [RefusedError, UsageError, EnvironmentFailureError])
@pytest.mark.parametrize("reason", [Reason.PATH_REFUSED, Reason.DISK_FULL])
def test_an_error_of_the_effects_comes_out_as_it_was_raised(
    host: SandboxHost, kind: type[RemitError], reason: Reason
) -> None:
    with pytest.raises(kind) as failed:
        host.run(order("refuse", kind=kind.__name__, reason=reason))
    assert type(failed.value) is kind
    assert failed.value.as_json() == {
        "reason": reason,
        "what": "this is wrong",
        "where": "over there",
        "next_step": "Do that.",
    }


@pytest.mark.req("EI-08", "EI-17")
@pytest.mark.parametrize("reason", [Reason.EXPIRED, Reason.SIGNATURE_INVALID, Reason.IN_PROGRESS])
def test_an_effect_has_no_say_on_authority(host: SandboxHost, reason: Reason) -> None:
    with pytest.raises(RefusedError) as failed:
        host.run(order("refuse", kind="RefusedError", reason=reason))
    assert failed.value.reason is Reason.EFFECT_FAILED


def test_a_bug_is_a_task_cut_short_and_says_where_it_is(host: SandboxHost) -> None:
    with pytest.raises(InterruptedTaskError, match="KeyError: 'missing'") as cut:
        host.run(order("blunder"))
    assert cut.value.reason is Reason.EFFECT_FAILED
    assert cut.value.where.startswith("plain_effects.py, line ")


@pytest.mark.parametrize(
    "call, inputs, said", [("exit_by_itself", {"code": 4}, "by itself"), ("leave", {}, "SystemExit")]
)
def test_a_process_that_ends_without_an_answer_is_a_task_cut_short(
    host: SandboxHost, call: str, inputs: dict[str, Any], said: str
) -> None:
    with pytest.raises(InterruptedTaskError, match=said) as cut:
        host.run(order(call, **inputs))
    assert cut.value.reason is Reason.EFFECT_FAILED


@pytest.mark.req("EI-15")
@pytest.mark.parametrize("answer", ["a set", "a list", "text", "too much"])
def test_an_answer_that_is_not_an_object_of_bounded_size_is_not_taken(host: SandboxHost, answer: str) -> None:
    with pytest.raises(InterruptedTaskError) as cut:
        host.run(order("answer_badly", what=answer))
    assert cut.value.reason is Reason.EFFECT_FAILED


@pytest.mark.req("EI-10")
def test_running_out_of_memory_is_a_breach_and_using_less_is_not(host: SandboxHost) -> None:
    assert host.run(order("eat_memory", bytes=QUOTAS.memory_bytes * 9 // 10)).output is not None
    with pytest.raises(InterruptedTaskError, match="bytes of memory") as cut:
        host.run(order("eat_memory", bytes=QUOTAS.memory_bytes + MIB))
    assert cut.value.reason is Reason.RESOURCE_EXHAUSTED


@pytest.mark.req("EI-10")
def test_a_file_past_the_write_quota_is_a_breach_and_the_notes_are_kept(host: SandboxHost, tmp_path: Path) -> None:
    with pytest.raises(InterruptedTaskError, match="wrote more than") as cut:
        host.run(order("write_far", folder=tmp_path, offset=QUOTAS.write_bytes))
    assert cut.value.reason is Reason.RESOURCE_EXHAUSTED
    assert cut.value.notes == ({"begun": True},)
    assert (tmp_path / "target").stat().st_size == 0


@pytest.mark.req("EI-09", "EI-10")
def test_the_process_is_dead_when_its_time_is_over_and_what_it_noted_is_known(tmp_path: Path) -> None:
    with plain_host(tmp_path, replace(QUOTAS, seconds=0.2)) as host:
        host.run(order("answer"))
        began = time.monotonic()
        with pytest.raises(InterruptedTaskError, match=r"longer than 0\.2 seconds") as cut:
            host.run(order("sleep", seconds=60))
        assert 0.2 < time.monotonic() - began < SOON
        assert is_gone(cut.value.notes[0]["asleep"])


def test_progress_is_reported_in_bounded_pieces(host: SandboxHost) -> None:
    told: list[tuple[int, int]] = []
    host.run(order("report"), on_progress=lambda done, total: told.append((done, total)))
    assert 1 < len(told) <= 100
    assert told == sorted(told)
    assert all(total == 5_000 for _, total in told)


def test_a_question_is_answered_while_the_clock_and_the_process_stand_still(tmp_path: Path) -> None:
    with plain_host(tmp_path, replace(QUOTAS, seconds=2.0)) as host:
        asked: list[Mapping[str, Any]] = []

        def think(question: Mapping[str, Any]) -> Mapping[str, Any]:
            asked.append(question)
            time.sleep(0.7)
            return {"yes": len(asked)}

        finished = host.run(order("ask"), on_ask=think)
        assert finished.output == {"answers": [{"yes": 1}, {"yes": 2}, {"yes": 3}]}
        assert asked == [{"number": 0}, {"number": 1}, {"number": 2}]
        assert finished.usage.seconds < 2.0


def test_without_a_handler_for_questions_the_answer_is_empty(host: SandboxHost) -> None:
    assert host.run(order("ask")).output == {"answers": [{}, {}, {}]}


@pytest.mark.req("EI-09")
def test_an_error_in_the_callers_own_code_ends_the_process_too(host: SandboxHost) -> None:
    def fail(done: int, total: int) -> None:
        raise ArithmeticError(f"{done} of {total}")

    before = open_descriptors()
    with pytest.raises(ArithmeticError):
        host.run(order("sleep", seconds=60, told=True), on_progress=fail)
    assert open_descriptors() <= before


@pytest.mark.req("EI-09")
def test_an_interrupt_from_the_keyboard_ends_the_process(host: SandboxHost) -> None:
    before = open_descriptors()

    def interrupt(*_: int) -> None:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        host.run(order("sleep", seconds=60, told=True), on_progress=interrupt)
    assert time.monotonic() - began < SOON
    assert open_descriptors() <= before
    assert host.run(order("answer")).output is not None


def test_an_effect_that_was_not_registered_is_refused(host: SandboxHost) -> None:
    with pytest.raises(UsageError, match="NOT_REGISTERED"):
        host.run(replace(order("answer"), effect="tests.sandbox.plain_effects:NOT_REGISTERED"))


@pytest.mark.req("EI-15")
def test_no_effect_gets_the_network(host: SandboxHost) -> None:
    with pytest.raises(UsageError, match="network"):
        host.run(replace(order("answer"), network=True))


def test_an_order_that_is_too_large_is_refused_before_a_process_sees_it(host: SandboxHost) -> None:
    with pytest.raises(RefusedError) as failed:
        host.run(order("answer", much="x" * (2 * MIB)))
    assert failed.value.reason is Reason.TOO_LARGE


def test_a_large_order_gets_through(host: SandboxHost) -> None:
    output = host.run(order("answer", much="x" * (MIB // 3))).output
    assert output is not None
    assert len(output["inputs"]["much"]) == MIB // 3


def test_a_closed_host_says_so(tmp_path: Path) -> None:
    host = plain_host(tmp_path)
    host.run(order("answer"))
    host.close()
    host.close()
    with pytest.raises(UsageError, match="closed"):
        host.run(order("answer"))


def test_closing_ends_the_tasks_of_other_threads_and_no_thread_waits_without_end(tmp_path: Path) -> None:
    host = plain_host(tmp_path)
    asleep = threading.Barrier(5)

    def meet(_done: int, _total: int) -> None:
        asleep.wait()

    with ThreadPoolExecutor(4) as threads:
        tasks = [threads.submit(host.run, order("sleep", seconds=60, told=True), on_progress=meet) for _ in range(4)]
        asleep.wait()
        host.close()
        ends = [task.exception(timeout=10) for task in tasks]
    assert [type(end) for end in ends] == [InterruptedTaskError] * 4


@pytest.mark.req("EI-09")
def test_a_child_that_dies_while_it_waits_is_passed_over(host: SandboxHost) -> None:
    output = host.run(order("look_around")).output
    assert output is not None
    zygote = output["zygote"]
    assert wait_until_gone(output["pid"])
    waiting = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    assert waiting
    for pid in map(int, waiting):
        os.kill(pid, signal.SIGKILL)
        assert wait_until_gone(pid)
    again = host.run(order("look_around")).output
    assert again is not None
    assert again["zygote"] == zygote


def test_an_answer_that_cannot_be_sent_is_the_callers_bug(host: SandboxHost) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        host.run(order("ask"), on_ask=lambda _: {"a set": {1}})


def test_in_a_forked_copy_of_the_process_it_is_a_misuse_and_the_original_works_on(host: SandboxHost) -> None:
    host.run(order("answer"))
    copy = os.fork()
    if copy == 0:
        try:
            host.run(order("answer"))
        except UsageError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 7
    assert host.run(order("answer")).output is not None


def test_many_threads_get_each_their_own_answer(host: SandboxHost) -> None:
    with ThreadPoolExecutor(16) as threads:
        outputs = list(threads.map(lambda number: host.run(order("answer", number=number)).output, range(200)))
    assert [output and output["inputs"]["number"] for output in outputs] == list(range(200))


@pytest.mark.req("EI-09")
def test_neither_descriptors_nor_memory_grow_with_the_number_of_tasks(host: SandboxHost) -> None:
    def tasks(count: int) -> None:
        for number in range(count):
            if number % 50 == 0:
                with pytest.raises(InterruptedTaskError):
                    host.run(order("exit_by_itself", code=1))
            host.run(order("answer", number=number))

    tasks(200)
    descriptors, memory = open_descriptors(), resident()
    tasks(20_000 if LONG else 300)
    assert abs(open_descriptors() - descriptors) <= 2 * AHEAD, "each waiting child is two of them"
    assert resident() - memory < 4 * MIB


@pytest.mark.req("EI-12")
def test_the_lock_is_held_until_the_last_process_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "hosts" / "this.lock"
    host = plain_host(tmp_path)
    assert not path.exists()
    host.run(order("answer"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert not can_lock(path)
    with plain_host(tmp_path) as second:
        second.run(order("answer"))
    assert not can_lock(path)
    host.close()
    assert can_lock(path)


def test_a_kernel_that_cannot_confine_is_named_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = unsupported("Linux", "5.4", "x86_64", "not built into this kernel")
    monkeypatch.setattr(confinement, "probe_kernel", lambda: old)
    confinement.require_confinement_here.cache_clear()
    with plain_host(tmp_path) as host:
        with pytest.raises(EnvironmentFailureError, match=r"landlock \(not built into this kernel\)") as failed:
            host.run(order("answer"))
        assert "remit doctor" in failed.value.next_step
    with plain_host(tmp_path, confined=False) as unsafe:
        assert unsafe.run(order("answer")).output is not None


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.req("EI-10")
def test_quotas_hold_without_the_other_walls_as_well(tmp_path: Path, confined: bool) -> None:  # noqa: FBT001
    tight = Quotas(memory_bytes=64 * MIB, read_bytes=MIB, write_bytes=MIB, seconds=0.3)
    with plain_host(tmp_path / "state", tight, confined=confined) as host:
        for asked in (
            order("sleep", seconds=60),
            order("eat_memory", bytes=512 * MIB),
            order("write_far", folder=tmp_path, offset=2 * MIB),
        ):
            with pytest.raises(InterruptedTaskError) as cut:
                host.run(asked)
            assert cut.value.reason is Reason.RESOURCE_EXHAUSTED


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"}


def wait_until_gone(pid: int) -> bool:
    for _ in range(500):
        if is_gone(pid):
            return True
        time.sleep(0.01)
    return False


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def can_lock(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
