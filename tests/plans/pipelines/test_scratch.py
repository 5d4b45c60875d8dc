"""The folder that a pipeline works in: what is copied to it, and what is taken from it, whatever lies there."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RemitError
from remit.effects.plans.steps import StepPlan
from remit.plans.engines.database_files import WorkFolder
from remit.plans.preparation.database_versions import DraftedPlan, PreparationContext
from remit.plans.preparation.pipeline_scratch import PipelineScratch
from remit.plans.preparation.prepared import PreparedAll
from remit.plans.runtime.runner import StepTimes
from remit.workspace.open import read_config
from tests.plans.project import Project, create, plan_of


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path, limits={"max_file_bytes": 10_000, "max_backup_bytes": 40_000})
    yield made
    made.close()


@pytest.fixture
def root(project: Project) -> Path:
    return project.root


@pytest.fixture
def scratch(project: Project, tmp_path: Path) -> Iterator[PipelineScratch]:
    """With what a plan has when it is looked at; nothing is run here."""
    engines = project.workspace.plans._environment().engines("draft", "plan-001")  # noqa: SLF001
    config, plan = read_config(project.root), Plan.parse(plan_of(create("a1", "x")))
    drafted = StepPlan("0" * 20, (), (), ())
    drafted_plan = DraftedPlan(steps=drafted, places={}, config=config, root=str(project.root), plan=plan)
    with WorkFolder.make(tmp_path / "work") as folder:
        yield PipelineScratch(
            PreparationContext(drafted_plan, engines, StepTimes(), folder, PreparedAll()), folder.folder("pipeline-0")
        )


def _links(made: Path) -> None:
    made.symlink_to("/etc/passwd")


def _dangles(made: Path) -> None:
    made.symlink_to("nowhere")


def _is_second_name(made: Path) -> None:
    made.with_name("first").write_text("x")
    os.link(made.with_name("first"), made)


def _is_fifo(made: Path) -> None:
    os.mkfifo(made)


def _lies_behind_link(made: Path) -> None:
    made.parent.rename(made.parent.with_name("elsewhere"))
    made.parent.symlink_to("elsewhere")
    made.write_text("x")


def _is_database_with_log(made: Path) -> None:
    made.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 100)
    made.with_name(made.name + ".wal").write_bytes(b"x")


@pytest.mark.req("PX-21")
@pytest.mark.parametrize(
    "lay, words",
    [
        (_links, "symbolic link"),
        (_dangles, "symbolic link"),
        (_is_second_name, "exactly one hard link"),
        (_is_fifo, "a FIFO"),
        (_lies_behind_link, "symbolic link"),
        (_is_database_with_log, "did not close this database"),
        (Path.mkdir, "a directory"),
    ],
)
def test_only_a_plain_and_closed_file_is_taken(
    scratch: PipelineScratch, lay: Callable[[Path], Any], words: str
) -> None:
    (scratch.path / "out").mkdir()
    lay(scratch.path / "out" / "made")
    with pytest.raises(RemitError) as told:
        scratch.collect_output("out/made", 0o644)
    assert told.value.reason is Reason.PIPELINE_FAILED
    assert words in told.value.what
    assert told.value.where == "out/made"


@pytest.mark.req("PX-21", "PX-22")
def test_a_file_is_taken_up_to_its_size_and_outlives_its_name(scratch: PipelineScratch) -> None:
    made, content = scratch.path / "made", b"x" * 10_000
    made.write_bytes(content + b"x")
    with pytest.raises(RemitError, match="10,001 bytes"):
        scratch.collect_output("made", 0o640)
    made.write_bytes(content)
    left = scratch.collect_output("made", 0o640)
    made.unlink()
    assert os.pread(left.file.descriptor, 20_000, 0) == content
    assert left.file.state == ("sha256:" + hashlib.sha256(content).hexdigest(), 10_000, 0o640)
    assert not left.is_database
    os.close(left.file.descriptor)


@pytest.mark.req("PX-34")
def test_a_folder_is_bound_by_the_names_and_bytes_of_all_its_files(scratch: PipelineScratch, root: Path) -> None:
    (root / "data/deep").mkdir(parents=True)
    (root / "data/a").write_text("1")
    (root / "data/deep/b").write_text("2")

    def digest(number: int) -> str:
        again = PipelineScratch(scratch._context, scratch.path / str(number))  # noqa: SLF001
        again.add("data")
        assert sorted(path.name for path in again.path.rglob("*") if path.is_file()) == sorted(
            path.name for path in (root / "data").rglob("*") if path.is_file()
        )
        return scratch._context.inputs["data"].input_digest  # noqa: SLF001

    first = digest(0)
    assert digest(1) == first
    (root / "data/deep/b").rename(root / "data/deep/c")
    renamed = digest(2)
    (root / "data/deep/c").write_text("3")
    changed = digest(3)
    (root / "data/new").write_text("")
    assert len({first, renamed, changed, digest(4)}) == 4


@pytest.mark.req("PX-34")
def test_bytes_of_all_files_together_are_bounded(scratch: PipelineScratch, root: Path) -> None:
    (root / "data").mkdir()
    for number in range(5):
        (root / f"data/{number}").write_bytes(b"x" * 9_000)
    with pytest.raises(RemitError, match="40,000 bytes together"):
        scratch.add("data")


@pytest.mark.req("PX-34")
def test_a_missing_path_and_a_folder_that_is_too_deep_are_reported(scratch: PipelineScratch, root: Path) -> None:
    with pytest.raises(RemitError) as told:
        scratch.add("nowhere")
    assert told.value.reason is Reason.FILE_MISSING
    (root / "/".join(["d"] * 40)).mkdir(parents=True)
    with pytest.raises(RemitError, match="more than 32 folders"):
        scratch.add("d")


@pytest.mark.req("PX-19")
def test_whatever_was_made_there_is_cleared_away(scratch: PipelineScratch, tmp_path: Path) -> None:
    """Folders within folders past the end of any walk, one that is closed, and a link that leads out."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    (scratch.path / "link").symlink_to(outside)
    (scratch.path / "closed" / "below").mkdir(parents=True)
    (scratch.path / "closed").chmod(0)
    here = os.open(scratch.path, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    scratch.clear()
    assert not scratch.path.exists()
    assert (outside / "mine.txt").read_text() == "mine"
