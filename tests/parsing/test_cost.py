"""What a bad input costs: under 1 s and under 100 MB, however it is built.

Each case is parsed in a process of its own, as a plan: only an envelope, with a plan in it, may be larger. Memory is
the high-water mark of that process's own address space (`ru_maxrss` would also count the parent's, from before the
exec); time is processor time, so that a busy machine does not decide the outcome.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import remit
from tests.support.sampling import some

MEGABYTE = 1_000_000
LIMIT_SECONDS = 1.0
LIMIT_BYTES = 100 * MEGABYTE

PROGRAM = """
import json, sys, time
from remit.contracts.schemas import load_contract
from remit.core.errors import RefusedError
from remit.parsing import read_bounded

def high_water():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

contract, way, path = load_contract(sys.argv[1]), *sys.argv[2:]
with open(path, "rb") as stream:
    raw = stream.read() if way == "memory" else None
    before, started = high_water(), time.process_time()
    try:
        contract.parse(read_bounded(stream, contract.bounds, source="input") if raw is None else raw, source="input")
        told = None
    except RefusedError as refusal:
        told = refusal.as_json()
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "grown": high_water() - before, "peak": high_water(), "told": told}))
"""

ACTION = '{"action_id":"a%d","action_type":"FILE_DELETE","target":"t","operation":{"type":"delete"}}'
NEARLY_FULL = 5 * MEGABYTE


@dataclass(frozen=True)
class Case:
    write: Callable[[BinaryIO], object]
    reason: str
    what: str
    where: str


def _plan(extra: str = "", content: str = "x", tail: str = "") -> bytes:
    """A plan that creates one file, with something more in it."""
    return (
        '{"plan_id":"p","action_plan":[{"action_id":"a","action_type":"FILE_CREATE","target":"t","operation":'
        f'{{"type":"write","content":"{content}"{extra}}}}}]{tail}}}'
    ).encode()


def _text(raw: bytes) -> Callable[[BinaryIO], object]:
    return lambda stream: stream.write(raw)


def _hundred_megabyte_string(stream: BinaryIO) -> None:
    stream.write(b'{"plan_id":"')
    stream.writelines(b"x" * MEGABYTE for _ in range(100))
    stream.write(b'"}')


LONG = "x" * (NEARLY_FULL - 1000)
WIDE = "x" * (NEARLY_FULL - 1000) + "\U0001f600"  # one such character quadruples what the text takes in memory
UNKNOWN = ",".join(f'"k{n}":0' for n in range(4_900))
NESTED_UNKNOWN = (
    f'{{"plan_id":{{{UNKNOWN}}},"action_plan":[{{{UNKNOWN}}}],"execution_instructions":{{{UNKNOWN}}},{UNKNOWN}}}'
)

CASES = {
    "unknown field": Case(_text(_plan(tail=',"surprise":1')), "malformed", "not known", "$.surprise"),
    "unknown field in a full document": Case(
        _text(_plan(content=WIDE, extra=',"surprise":1')),
        "malformed",
        "not known",
        "$.action_plan[0].operation.surprise",
    ),
    "thousands of unknown fields": Case(_text(NESTED_UNKNOWN.encode()), "malformed", "not known", "$."),
    "90,000 unknown fields": Case(
        _text(("{" + ",".join(f'"{n}":0' for n in range(90_000)) + "}").encode()), "too_large", "5,000 members", "'0'"
    ),
    "wrong type": Case(_text(_plan(tail=',"validation_rules":{}')), "malformed", "array", "$.validation_rules"),
    "wrong type 90,000 times": Case(
        _text(('{"plan_id":"p","action_plan":[' + "1," * 90_000 + "1]}").encode()),
        "malformed",
        "object",
        "action_plan[0]",
    ),
    "more actions than a plan may have": Case(
        _text(('{"plan_id":"p","action_plan":[' + ",".join(ACTION % n for n in range(9_000)) + "]}").encode()),
        "malformed",
        "at most 1000",
        "$.action_plan",
    ),
    "duplicate key": Case(_text(_plan(tail=',"plan_id":"q"')), "malformed", " twice", "line 1, column"),
    "duplicate key in a full document": Case(
        _text(_plan(content=WIDE, tail=',"plan_id":"q"')), "malformed", " twice", "line 1, column"
    ),
    "NaN": Case(_text(_plan(extra=',"mode":NaN')), "malformed", "NaN", "line 1, column"),
    "NaN in a full document": Case(
        _text(_plan(content=WIDE, extra=',"mode":NaN')), "malformed", "NaN", "line 1, column"
    ),
    "a million nested arrays": Case(_text(b"[" * MEGABYTE), "too_deep", "32 levels", "byte 32"),
    "a million nested objects": Case(_text(b'{"a":' * MEGABYTE), "too_deep", "32 levels", "byte 160"),
    "a 100 MB string": Case(_hundred_megabyte_string, "too_large", "larger than", "input"),
    "invalid UTF-8": Case(_text(_plan(content="@").replace(b"@", b"\xff")), "malformed", "UTF-8", "byte"),
    "invalid UTF-8 in a full document": Case(_text(_plan(content=WIDE) + b"\xff"), "malformed", "UTF-8", "byte "),
    "lone surrogate": Case(_text(_plan(content="\\ud800")), "malformed", "surrogate", "line 1, column"),
    "lone surrogate in a full document": Case(
        _text(_plan(content=WIDE + "\\ud800")), "malformed", "surrogate", "line 1, column"
    ),
    "lone surrogate after millions of escapes": Case(
        _text(_plan(content="\\n" * (NEARLY_FULL // 2 - 1000) + "\\ud800")), "malformed", "surrogate", "column"
    ),
    "lone surrogate below a long key": Case(
        _text(('{"' + "k" * (NEARLY_FULL - 300_000) + '":[' + "1," * 90_000 + '"\\ud800"]}').encode()),
        "malformed",
        "surrogate",
        "column",
    ),
    "unfinished string": Case(_text(b'{"plan_id":"' + LONG.encode()), "malformed", "closing quote", "byte 11"),
    "a run of quotes": Case(_text(b'"' * NEARLY_FULL), "too_large", "100,000 values", "byte"),
    "a run of closing brackets": Case(_text(b"]" * NEARLY_FULL), "malformed", "no opening", "byte 0"),
    "a run of commas": Case(_text(b"," * NEARLY_FULL), "too_large", "100,000 values", "byte"),
    "a number of millions of digits": Case(_text(b"9" * NEARLY_FULL), "malformed", "40 digits", "line 1, column 1"),
}


def _measure(contract: str, way: str, path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, contract, way, path],
        env={**os.environ, "PYTHONPATH": str(Path(remit.__file__).parents[1])},
        capture_output=True,
        check=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


@pytest.mark.parametrize("way", ["memory", "file"])
@pytest.mark.parametrize("name", some(CASES, 5))
def test_bad_input_is_refused_within_a_second_and_100_mb(name: str, way: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "input"
    with path.open("wb") as stream:
        case.write(stream)
    measured = _measure("plan", way, path)
    told = measured["told"]
    assert told is not None, "accepted"
    assert told["reason"] == case.reason, told
    assert case.what in told["what"], told
    assert case.where in told["where"], told
    assert measured["seconds"] < LIMIT_SECONDS, measured
    # A file is never read past the bound, so there the whole process counts; bytes in memory were there before.
    assert measured["peak" if way == "file" else "grown"] < LIMIT_BYTES, measured


def test_largest_valid_document_stays_within_the_same_limits(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(_plan(content=WIDE))
    measured = _measure("plan", "file", path)
    assert measured["told"] is None
    assert measured["seconds"] < LIMIT_SECONDS
    assert measured["peak"] < LIMIT_BYTES


def test_largest_document_of_the_widest_contract_stays_within_the_same_limits(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(f'{{"status":"{"x" * ((6 << 20) - 100)}\U0001f600"}}'.encode())
    measured = _measure("envelope", "file", path)
    assert measured["told"]["reason"] == "malformed"
    assert measured["seconds"] < LIMIT_SECONDS
    assert measured["peak"] < LIMIT_BYTES, measured
