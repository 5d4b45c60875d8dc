"""Log records: one line each, masked, bounded, and never a reason for the work to fail."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import RefusedError
from remit.observability.logs import (
    IDS,
    LEVELS,
    MAX_RECORD,
    JsonLinesHandler,
    bind_ids,
    configure_logging,
    configure_warnings,
    parse_level,
    render_record,
    render_text,
)

ROOT = Path(__file__).resolve().parents[2]
LOG = logging.getLogger("remit.tests")
SECRET = "hunter2-Xq9"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("remit")
    levels = root.level, ours.level
    sink = io.StringIO()
    handler = configure_logging(sink, logging.DEBUG)
    yield sink
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def _records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def _render(message: object, *arguments: object, **extra: object) -> dict[str, Any]:
    record = logging.LogRecord("remit.tests", logging.INFO, "", 0, message, arguments, None)
    vars(record).update(extra)
    document: dict[str, Any] = json.loads(render_record(record))
    return document


def test_a_record_says_when_how_grave_who_and_what(stream: io.StringIO) -> None:
    LOG.warning("disk is %d%% full", 93, extra={"correlation_id": "c-1", "task_id": "t-1", "disk": "sda"})
    (record,) = _records(stream)
    assert record.pop("ts").endswith("Z")
    assert record == {
        "level": "warning",
        "logger": "remit.tests",
        "message": "disk is 93% full",
        "correlation_id": "c-1",
        "task_id": "t-1",
        "fields": {"disk": "sda"},
    }


def test_bound_ids_are_on_every_record_inside_and_on_none_after(stream: io.StringIO) -> None:
    with bind_ids(correlation_id="outer", task_id="t-1"):
        with bind_ids(correlation_id="inner"):
            LOG.info("one")
        LOG.info("two")
    LOG.info("three")
    ids = [(record.get("correlation_id"), record.get("task_id")) for record in _records(stream)]
    assert ids == [("inner", "t-1"), ("outer", "t-1"), (None, None)]


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1e", "\0"])
def test_no_character_can_forge_a_second_record(stream: io.StringIO, separator: str) -> None:
    forged = '{"ts": "2026-01-01T00:00:00Z", "level": "info", "message": "all is well"}'
    hostile = f"start{separator}{forged}"
    LOG.info(hostile, extra={hostile: hostile, "correlation_id": hostile})
    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    assert written.endswith("\n")
    assert written.isascii()
    assert _records(stream)[0]["message"] == hostile


def test_terminal_escapes_and_half_characters_come_out_as_plain_ascii() -> None:
    # Rendered, not logged: pytest would keep the half character for its report, which xdist cannot send.
    written = render_record(logging.makeLogRecord({"msg": "\x1b[2J\x9b31m\x7f \udc80 \U0001f600", "levelname": "INFO"}))
    assert written.isascii()
    assert written.rstrip("\n").isprintable()


def test_extras_cannot_pass_for_the_records_own_fields() -> None:
    document = _render("real", ts="then", level="debug", logger="elsewhere", fields="odd")
    assert (document["level"], document["logger"], document["message"]) == ("info", "remit.tests", "real")
    assert document["fields"] == {"ts": "then", "level": "debug", "logger": "elsewhere", "fields": "odd"}


@pytest.mark.parametrize(
    "log",
    [
        lambda: LOG.info("password=%s", SECRET),
        lambda: LOG.info("connecting to postgresql://remit:%s@db/ledger", SECRET),
        lambda: LOG.info("request", extra={"password": SECRET}),
        lambda: LOG.info("request", extra={"headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}]}),
        lambda: LOG.info("request", extra={"deep": {"er": {"api_key": SECRET}}}),
        lambda: LOG.info("request", extra={"note": f"password: {SECRET}"}),
        lambda: LOG.info("request", extra={"correlation_id": f"password={SECRET}"}),
        lambda: logging.getLogger(f"remit.password={SECRET}").info("named"),
    ],
)
def test_a_secret_in_any_part_of_a_record_is_masked(stream: io.StringIO, log: Any) -> None:
    log()
    assert len(_records(stream)) == 1
    assert SECRET not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_a_secret_in_an_exception_is_masked_in_its_text_its_trace_and_its_causes(stream: io.StringIO) -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    def fail_because_of(text: str) -> None:
        try:
            fail(text)
        except ValueError as cause:
            raise RuntimeError(f"token: {SECRET}") from cause

    try:
        fail_because_of(f"password={SECRET}")
    except RuntimeError:
        LOG.exception("it failed")
    (record,) = _records(stream)
    assert SECRET not in stream.getvalue()
    assert record["error"]["type"] == "RuntimeError"
    assert "in fail_because_of" in record["error"]["trace"]
    assert "ValueError" in record["error"]["trace"]


def test_a_secret_that_straddles_the_cut_is_not_shown_in_part() -> None:
    for padding in range(32_700, 32_769, 4):
        document = _render("x" * padding + f" password={SECRET} " + "y" * 40_000)
        assert SECRET[:4] not in json.dumps(document)


def test_masking_shrinks_a_long_text_and_still_shows_no_piece_of_what_was_cut() -> None:
    """Masks are short: what stood far behind may move to the front, the cut edge with it."""
    text = " ".join(f"password={SECRET}{'z' * 3_000}" for _ in range(20))
    assert SECRET[:4] not in json.dumps(_render(text))


def test_a_record_is_bounded_whatever_goes_in() -> None:
    wide: list[Any] = ["\U0001f600" * 1_000] * 50
    for _ in range(10):
        wide = [wide] * 50
    loop: list[Any] = []
    loop.append(loop)
    extras = {"wide": wide, "loop": loop, "long": "a" * 10_000_000, "number": 10**6_000, "raw": b"x" * 1_000_000}
    record = logging.LogRecord("remit.tests", logging.INFO, "", 0, "\U0001f600" * 1_000_000, (), None)
    vars(record).update(extras, correlation_id="\U0001f600" * 10_000)
    line = render_record(record)
    assert len(line) <= MAX_RECORD
    assert json.loads(line)["level"] == "info"


def test_a_record_too_large_with_its_fields_keeps_its_message_and_says_so() -> None:
    document = _render("what happened", **{f"field{i}": "\U0001f600" * 2_000 for i in range(8)})
    assert document["message"] == "what happened"
    assert document["truncated"] is True
    assert "fields" not in document


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


class _BrokenMapping(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError(SECRET)


class _BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_arguments_that_do_not_fit_are_reported_and_do_not_raise() -> None:
    assert _render("%d files", "many")["message"] == "%d files (its arguments could not be put in)"
    assert _render("%s", _Unprintable())["message"] == "%s (its arguments could not be put in)"
    assert _render(_Unprintable())["message"] == "<_Unprintable> (its arguments could not be put in)"


def test_values_that_are_not_json_are_described() -> None:
    fields = _render(
        "odd",
        a=float("nan"),
        b=b"\xff\xfe",
        c=_Unprintable(),
        d={1: {2}},
        e=2**70,
        f=Path("/tmp"),  # noqa: S108 - only its text
    )["fields"]
    assert fields == {
        "a": "nan",
        "b": "<2 bytes>",
        "c": "<_Unprintable>",
        "d": {"1": [2]},
        "e": "<integer of 71 bits>",
        "f": "/tmp",  # noqa: S108 - test data
    }
    assert _render("odd", a=_BrokenMapping(x=1))["fields"] == {"unreadable": "RuntimeError"}


def test_an_error_that_cannot_be_printed_is_still_reported(stream: io.StringIO) -> None:
    LOG.error("odd", exc_info=_BrokenError())
    (record,) = _records(stream)
    assert record["error"]["message"] == "<_BrokenError>"


_json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(message=st.text(), extra=st.dictionaries(st.text(min_size=1), _json_like, max_size=4))
def test_any_record_is_one_line_of_ascii_json(message: str, extra: Mapping[str, Any]) -> None:
    record = logging.LogRecord("remit.tests", logging.INFO, "", 0, message, (), None)
    vars(record).update({f"x_{name}": value for name, value in extra.items()})
    line = render_record(record)
    assert line.isascii()
    assert line.isprintable()
    assert isinstance(json.loads(line), dict)
    assert "a record was lost" not in line


class _FullDisk(io.StringIO):
    def write(self, _text: str, /) -> int:
        raise OSError(28, "No space left on device")


def test_a_stream_that_fails_costs_the_record_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    closed = io.StringIO()
    closed.close()
    for broken in (_FullDisk(), closed):
        handler = JsonLinesHandler(broken)
        handler.handle(logging.LogRecord("remit", logging.INFO, "", 0, f"password={SECRET}", (), None))
    assert capsys.readouterr() == ("", "")


def test_threads_do_not_mix_their_lines(stream: io.StringIO) -> None:
    def work(name: str) -> None:
        with bind_ids(correlation_id=name):
            for number in range(50):
                LOG.info("line %d\nof many", number)

    threads = [threading.Thread(target=work, args=(f"c-{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [record["correlation_id"] for record in _records(stream)]
    assert {name: seen.count(name) for name in seen} == {f"c-{i}": 50 for i in range(4)}


def test_configuring_twice_does_not_write_twice(stream: io.StringIO) -> None:
    second = io.StringIO()
    handler = configure_logging(second, logging.INFO)
    LOG.debug("too quiet")
    LOG.info("once")
    logging.getLogger().removeHandler(handler)
    assert stream.getvalue() == ""
    assert [record["message"] for record in _records(second)] == ["once"]


def test_other_libraries_are_heard_from_warnings_on_and_masked_as_well(stream: io.StringIO) -> None:
    other = logging.getLogger("somebody.else")
    other.info("chatter")
    other.warning("password=%s", SECRET)
    (record,) = _records(stream)
    assert record["logger"] == "somebody.else"
    assert SECRET not in record["message"]


@pytest.mark.parametrize("name", [*LEVELS, "DEBUG", " Info "])
def test_a_level_is_known_by_its_name(name: str) -> None:
    assert parse_level(name) == LEVELS[name.strip().lower()]


@pytest.mark.parametrize("name", ["", "loud", "10", "notset"])
def test_an_unknown_level_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        parse_level(name)
    assert refusal.value.next_step == "Use one of: debug, info, warning, error."


def test_a_reader_that_went_away_does_not_stop_the_program() -> None:
    program = (
        "import logging, os, sys; from remit.observability.logs import configure_logging\n"
        "configure_logging(sys.stderr, logging.INFO)\n"
        "[logging.getLogger('remit').info('x' * 1000) for _ in range(1000)]\n"
        "print('finished', flush=True); os._exit(0)"
    )
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=write, check=False
    )
    os.close(write)
    assert (done.returncode, done.stdout) == (0, b"finished\n")


def test_the_reference_page_names_every_member_level_and_limit() -> None:
    page = (ROOT / "docs/reference/logs.md").read_text(encoding="utf-8")
    record = logging.LogRecord("remit", logging.INFO, "", 0, "m", (), (ValueError, ValueError("odd"), None))
    vars(record).update(dict.fromkeys(IDS, "id"), other=1)
    members = [*json.loads(render_record(record)), "truncated", *LEVELS]
    assert [name for name in members if f"`{name}`" not in page and f"={name}`" not in page] == []
    assert str(MAX_RECORD) in page


def test_words_for_a_person_are_one_masked_line_with_all_that_the_record_says() -> None:
    record = logging.LogRecord("remit.tests", logging.WARNING, "", 0, "not %s\x1b[2J", ("settled\nnow",), None)
    vars(record).update({"why": f"password={SECRET}", "task_id": "t-1"})
    line = render_text(record)
    assert line.startswith("warning: not settled")
    assert "task_id: t-1, why: " in line
    assert SECRET not in line
    assert line.isprintable()


def test_words_are_for_warnings_only_and_a_broken_stream_is_no_reason_to_fail() -> None:
    root = logging.getLogger()
    sink = io.StringIO()
    first, second = configure_warnings(io.StringIO()), configure_warnings(sink)
    try:
        assert first not in root.handlers
        LOG.info("quiet")
        LOG.warning("loud")
        assert sink.getvalue() == "warning: loud\n"
        sink.close()
        LOG.warning("into nothing")
    finally:
        root.removeHandler(second)
