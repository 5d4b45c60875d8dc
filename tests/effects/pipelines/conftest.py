"""One sandbox for all tests of a module, and folders of one's own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.sandbox.host import SandboxHost
from tests.effects.pipelines.pipeline_sandbox import Bench, make_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    with make_host(tmp_path_factory.mktemp("programs")) as made:
        yield made


@pytest.fixture(scope="module")
def loose_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    """Without the walls: to show that what they hold back would else happen."""
    with make_host(tmp_path_factory.mktemp("loose"), confined=False) as made:
        yield made


@pytest.fixture
def bench(tmp_path: Path, host: SandboxHost) -> Bench:
    return Bench(tmp_path / "bench", host)


@pytest.fixture
def loose(tmp_path: Path, loose_host: SandboxHost) -> Bench:
    return Bench(tmp_path / "loose", loose_host)
