"""The conformance check can fail: each kind of violation, planted in a small project, is found and named."""

import subprocess
from pathlib import Path

import pytest

from scripts import conformance
from scripts.conformance import GAPS, PAGE, PROMISES, check, current_page, read_promises, scan_source, scan_tests

TABLE = '[blocks]\nAA = "First"\n\n[promises]\nAA-01 = "One."\nAA-02 = "Two."\n'
PROOF = 'import pytest\n\n\n@pytest.mark.req("{0}")\ndef test_it():\n    assert True\n'


class Project:
    """A git repository with a promise table, a gaps list, one test file and an up-to-date page."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "-q")
        self.write(PROMISES, TABLE)
        self.write(GAPS, "# allowed\nAA-02\n")
        self.write(Path("tests/test_one.py"), PROOF.format("AA-01"))
        self.regenerate()

    def write(self, name: Path, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def regenerate(self) -> None:
        self.write(PAGE, current_page(self.root))

    def commit(self) -> None:
        self._git("add", "-A")
        self._git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "a version")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# --- the rules ------------------------------------------------------------------------------------------------------


def test_a_conformant_project_passes_with_and_without_history(project: Project) -> None:
    assert check(project.root) == []
    project.commit()
    assert check(project.root) == []


def test_an_unknown_id_is_refused_with_the_test_that_uses_it(project: Project) -> None:
    project.write(Path("tests/test_two.py"), PROOF.format("AA-99"))
    project.regenerate()
    assert check(project.root) == ["AA-99: unknown id, used by tests/test_two.py::test_it"]


def test_a_page_that_is_out_of_date_or_missing_is_refused(project: Project) -> None:
    project.write(PAGE, (project.root / PAGE).read_text().replace("One.", "Uno."))
    assert check(project.root) == ["docs/conformance.md: out of date, run `make docs`"]
    (project.root / PAGE).unlink()
    assert check(project.root) == ["docs/conformance.md: out of date, run `make docs`"]


def test_a_promise_with_neither_test_nor_gap_is_refused(project: Project) -> None:
    project.write(GAPS, "")
    assert check(project.root) == ["AA-02: no test proves it, and it is not an allowed gap"]


def test_a_promise_said_to_be_kept_in_part_needs_a_test_and_shows_what_is_missing(project: Project) -> None:
    project.write(PROMISES, TABLE + '\n[partly]\nAA-01 = "the rest"\n')
    project.regenerate()
    assert check(project.root) == []
    assert "in part; missing: the rest" in current_page(project.root)
    project.write(PROMISES, TABLE + '\n[partly]\nAA-02 = "all of it"\n')
    project.regenerate()
    assert check(project.root) == ["AA-02: listed as proved in part, but no test has its id"]


def test_a_gap_that_has_a_test_is_refused_so_that_the_list_shrinks(project: Project) -> None:
    project.write(Path("tests/test_two.py"), PROOF.format("AA-02"))
    project.regenerate()
    assert check(project.root) == [f"AA-02: has a test, so take it out of {GAPS}"]


def test_a_gap_with_an_unknown_id_or_listed_twice_is_refused(project: Project) -> None:
    project.write(GAPS, "AA-02\nAA-02\nZZ-01\n")
    assert check(project.root) == [f"ZZ-01: in {GAPS} but not a known id", f"AA-02: twice in {GAPS}"]


@pytest.mark.parametrize("committed_as_well", [False, True], ids=["uncommitted", "committed"])
def test_a_gaps_list_that_grew_is_refused(project: Project, *, committed_as_well: bool) -> None:
    project.commit()
    (project.root / "tests/test_one.py").unlink()
    project.write(GAPS, "AA-01\nAA-02\n")
    project.regenerate()
    if committed_as_well:
        project.commit()
    [only] = check(project.root)
    assert only.startswith(f"AA-01: {GAPS} may only shrink, and ")


def test_a_new_promise_may_start_as_a_gap(project: Project) -> None:
    project.commit()
    project.write(PROMISES, TABLE + 'AA-03 = "Three."\n')
    project.write(GAPS, "AA-02\nAA-03\n")
    project.regenerate()
    assert check(project.root) == []


def test_a_malformed_id_is_refused(project: Project) -> None:
    project.write(PROMISES, TABLE + 'A1-3 = "Three."\n')
    project.write(GAPS, "AA-02\nA1-3\n")
    project.regenerate()
    assert check(project.root) == ["A1-3: not an id of the form XX-00"]


# --- reading markers ------------------------------------------------------------------------------------------------

MARKED = """
import pytest

pytestmark = [pytest.mark.slow_crash, pytest.mark.req("AA-01")]

@pytest.mark.req("AA-02", "AA-03")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("AA-04"))])
def test_function(x): ...

@pytest.mark.req("AA-05")
class TestClass:
    pytestmark = pytest.mark.req("AA-06")

    @pytest.mark.req("AA-01")
    async def test_method(self): ...

@pytest.mark.skip(reason="later")
@pytest.mark.req("AA-02")
def test_skipped(): ...

@pytest.mark.xfail
@pytest.mark.req("AA-02")
def test_expected_to_fail(): ...

def not_a_test(): ...
"""


def test_markers_are_read_from_module_class_function_and_parameters() -> None:
    scan = scan_source(MARKED, "t.py")
    function, method = "t.py::test_function", "t.py::TestClass::test_method"
    assert scan.unreadable == []
    assert scan.proofs == {
        "AA-01": [function, method],
        "AA-02": [function],
        "AA-03": [function],
        "AA-04": [function],
        "AA-05": [method],
        "AA-06": [method],
    }


@pytest.mark.parametrize(
    "source",
    [
        'import pytest\nproves = pytest.mark.req("AA-01")\n@proves\ndef test_it(): ...\n',
        'import pytest\n@pytest.mark.req("AA-01")\ndef check_it(): ...\n',
        'from pytest import mark\n@mark.req("AA-01")\nclass Helper:\n    def test_it(self): ...\n',
    ],
    ids=["alias", "not a test function", "not a test class"],
)
def test_a_marker_that_stands_on_no_test_is_reported(source: str) -> None:
    [problem] = scan_source(source, "t.py").unreadable
    assert "a requirement marker that is not on a test" in problem


def test_an_id_that_is_not_literal_is_reported() -> None:
    scan = scan_source("import pytest\n@pytest.mark.req(SOME_ID)\ndef test_it(): ...\n", "t.py")
    assert scan.unreadable == ["t.py:2: requirement ids must be literal strings"]


# --- this project ---------------------------------------------------------------------------------------------------


def test_the_promise_table_has_every_block_in_full() -> None:
    sizes = {"EI": 17, "FX": 14, "PX": 37, "VX": 15, "AC": 28}
    expected = {f"{block}-{number:02}" for block, size in sizes.items() for number in range(1, size + 1)}
    assert expected <= read_promises().keys()


def test_the_scan_sees_every_marker_that_pytest_sees(request: pytest.FixtureRequest) -> None:
    """Compares the two for the tests collected in this very run."""
    proofs = scan_tests().proofs
    missed = [
        (requirement, item.nodeid)
        for item in request.session.items
        for marker in item.iter_markers("req")
        for requirement in marker.args
        if item.nodeid.partition("[")[0] not in proofs.get(requirement, [])
        and not any(item.iter_markers("skip"))
        and not any(item.iter_markers("xfail"))
    ]
    assert missed == []


def test_the_command_writes_the_page_reports_violations_and_fails(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / PAGE).unlink()
    assert conformance.main(["--write"], project.root) == 0
    assert conformance.main(["--check"], project.root) == 0
    project.write(GAPS, "")
    assert conformance.main(["--check"], project.root) == 1
    assert "AA-02: no test proves it" in capsys.readouterr().err
    assert conformance.main([], project.root) == 2
