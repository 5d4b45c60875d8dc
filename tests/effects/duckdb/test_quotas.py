"""Texts that use too much time or memory are stopped by the engine or by the host, and the error says so."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from remit.core.errors import Reason, RefusedError, RemitError
from remit.sandbox.host import InterruptedTaskError, SandboxHost
from remit.sandbox.orders import Quotas
from tests.effects.duckdb.duckdb_sandbox import MIB, UNCHECKED, Shop, make_host
from tests.support.patience import SOON

BOMB: Final = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM t) SELECT count(*) FROM t"
TIGHT: Final = Quotas(memory_bytes=150 * MIB, read_bytes=256 * MIB, write_bytes=8 * MIB, seconds=5.0)


@pytest.mark.req("PX-19")
def test_072_a_query_without_end_is_killed_by_the_host(shop: Shop) -> None:
    began = time.monotonic()
    with pytest.raises(InterruptedTaskError) as cut:
        shop.run(BOMB, seconds=1.0)
    assert cut.value.reason is Reason.TIMED_OUT
    assert time.monotonic() - began < SOON
    assert shop.run("SELECT 1")["rows"] == [["1"]]


MEMORY_BOMBS: Final = {
    "073 string bomb": "SELECT length(repeat('a', 20000000000))",
    "074 list bomb": "SELECT len(range(5000000000))",
    "a list of all": "SELECT list(range) FROM range(1000000000)",
    "a table in memory": "CREATE TEMP TABLE big AS SELECT repeat('x', 1000) || range a FROM range(100000000)",
    "many strings": "SELECT repeat('x', 4000000000)",
    "a product that is sorted": "SELECT * FROM range(100000) a, range(100000) b ORDER BY random()",
}


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("text", MEMORY_BOMBS.values(), ids=MEMORY_BOMBS.keys())
def test_a_statement_that_needs_too_much_memory_fails_as_resource_exhausted(shop: Shop, text: str) -> None:
    with pytest.raises(RemitError) as failed:
        shop.run(text, memory_bytes=64 * MIB)
    assert failed.value.reason is Reason.RESOURCE_EXHAUSTED


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("depth", [2_000, 50_000])
def test_075_deep_nesting_is_refused_and_crashes_nothing(shop: Shop, depth: int) -> None:
    text = f"SELECT {'(' * depth}1{')' * depth}"
    with pytest.raises(RefusedError) as refused:
        shop.run(text)
    assert refused.value.reason is Reason.SQL_REFUSED
    with pytest.raises(RemitError):
        shop.run(text, effect=UNCHECKED)


def test_nesting_within_the_limit_of_the_engine_is_accepted(shop: Shop) -> None:
    assert shop.run(f"SELECT {'(' * 400}1{')' * 400} AS deep")["rows"] == [["1"]]


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with make_host(tmp_path_factory.mktemp("tight"), TIGHT) as made:
        yield made


@pytest.mark.req("PX-19")
def test_where_the_engine_would_allow_more_than_the_sandbox_the_sandbox_decides(
    tmp_path: Path, tight: SandboxHost
) -> None:
    with pytest.raises(RemitError) as failed:
        Shop(tmp_path, tight).run("SELECT list(range) FROM range(1000000000)", memory_bytes=4096 * MIB)
    assert failed.value.reason is Reason.RESOURCE_EXHAUSTED


@pytest.mark.req("PX-19")
def test_a_database_that_grows_past_the_write_limit_is_stopped(tmp_path: Path, tight: SandboxHost) -> None:
    with pytest.raises(RemitError) as failed:
        Shop(tmp_path, tight).run("CREATE TABLE big AS SELECT md5(range::VARCHAR) a FROM range(1000000)")
    assert failed.value.reason is Reason.RESOURCE_EXHAUSTED
