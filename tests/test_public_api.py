"""Each public name resolves, is documented and is loaded when first used. Older import paths still work."""

import importlib
import inspect
import json
import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

import remit
import remit.errors
import remit.executors
import remit.testing
from remit.testing.executor_contract import FORBIDDEN

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = {"remit": remit, "remit.executors": remit.executors, "remit.testing": remit.testing}
PAGE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
FOR_READERS = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.*")]
    if path.parent.name != "decisions"
)
IMPORT = re.compile(r"^\s*(?:from|import) (remit(?:\.\w+)*)", re.MULTILINE)

MODELS = {"AbsolutePath", "Capability", "Contract", "Identifier", "Nothing", "PathUse"}
"""Names that a declaration imports in the host. The other names of `remit.executors` are for effects."""

# Internal names without a public replacement yet. The page or the program says so beside the import.
INTERNAL_IN_DOCUMENTS = {
    ("docs/how-to/write-access-policies.md", "remit.goals.access.policy"),
    ("docs/how-to/write-access-policies.md", "remit.goals.access.policy_files"),
    ("examples/shop.py", "remit.contracts.services.common"),
    ("examples/shop.py", "remit.identity.callers"),
    ("examples/shop.py", "remit.identity.person"),
    ("examples/shop.py", "remit.services.services"),
}

OLDER_PATHS = [
    ("remit.errors", "Refused", "RefusedError"),
    ("remit.errors", "Misuse", "UsageError"),
    ("remit.errors", "EnvironmentFailed", "EnvironmentFailureError"),
    ("remit.errors", "RemitError", "RemitError"),
    ("remit.errors", "Reason", "Reason"),
    ("remit.workspace", "Workspace", "Workspace"),
    ("remit.governed", "governed", "governed"),
    ("remit.governed", "acting", "acting"),
    ("remit.governed", "tool_of", "tool_of"),
    ("remit.governed", "tools_of", "tools_of"),
    ("remit.governed", "NotDone", "NotDoneError"),
]


def _loaded_by(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{program}; import json, sys; print(json.dumps(sorted(sys.modules)))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def _among(loaded: set[str], unwanted: tuple[str, ...]) -> set[str]:
    return {name for name in loaded if any(name == each or name.startswith(f"{each}.") for each in unwanted)}


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_resolves_and_no_other_does(package: str) -> None:
    module = PUBLIC[package]
    names = module.__all__
    assert [name for name in names if getattr(module, name, None) is None] == []
    assert set(names) <= set(dir(module))
    assert not hasattr(module, "no_such_name")


@pytest.mark.parametrize("package", PUBLIC)
def test_the_page_lists_every_public_name_and_no_other(package: str) -> None:
    section = PAGE.partition(f"\n## {package}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)", section, re.MULTILINE)
    assert sorted(documented) == sorted(PUBLIC[package].__all__)


def test_methods_of_a_workspace_on_the_page_exist_with_their_parameters(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    table = PAGE.partition("| method or attribute |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(?:Workspace\.)?(\w+)(?:\(([^`]*)\))?`", table, re.MULTILINE)
    parts = re.findall(r"`(\w+)\.(\w+)(?:\(([^`]*)\))?`", table)
    named = [*((name, told) for name, told in rows), *((f"{part}.{name}", told) for part, name, told in parts)]
    assert len(named) > 30
    (tmp_path / "project").mkdir()
    made, _ = remit.initialise(tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")})
    with made:
        for name, told in named:
            if name == "Workspace.open":
                continue
            with subtests.test(name):
                found = operator.attrgetter(name)(made)
                if keywords := re.findall(r"(\w+)=", told):
                    assert set(keywords) <= inspect.signature(found).parameters.keys()


def test_importing_the_package_loads_nothing_else_of_remit_and_nothing_heavy() -> None:
    loaded = _loaded_by("import remit")
    assert _among(loaded, ("remit",)) == {"remit", "remit.version"}
    assert _among(loaded, ("cryptography", "duckdb", "fastapi", "pydantic", "sqlalchemy", "sqlite3")) == set()


def test_what_an_effect_imports_loads_no_models_and_nothing_with_a_key_or_a_ledger() -> None:
    for_effects = sorted(set(remit.executors.__all__) - MODELS)
    loaded = _loaded_by(f"from remit.executors import {', '.join(for_effects)}")
    assert "remit.fs.openat" in loaded
    assert _among(loaded, FORBIDDEN) == set()


def test_no_name_for_executors_loads_anything_with_a_key_or_a_ledger() -> None:
    loaded = _loaded_by(f"from remit.executors import {', '.join(remit.executors.__all__)}")
    assert "remit.contracts.base" in loaded
    assert _among(loaded, tuple(name for name in FORBIDDEN if name != "pydantic")) == set()


def test_an_older_import_path_gives_the_same_object(subtests: pytest.Subtests) -> None:
    for module, old, new in OLDER_PATHS:
        with subtests.test(module):
            found = getattr(importlib.import_module(module), old)
            named = getattr(importlib.import_module(module), new)
            assert found is named
            if new != "governed":  # there is also a module of this name: see below
                assert found is getattr(remit, new)


def test_the_older_path_of_the_check_for_executors_gives_the_same_object() -> None:
    assert importlib.import_module("remit.testing.executors").check_capability is remit.testing.check_capability


def test_an_error_is_caught_under_both_of_its_names() -> None:
    assert remit.RefusedError is remit.errors.Refused
    with pytest.raises(remit.errors.Refused):
        raise remit.RefusedError(remit.Reason.MALFORMED, "not JSON")


@pytest.mark.parametrize(
    "imports",
    [
        "from remit import governed",
        "from remit.governed import tool_of; from remit import governed",
        "from remit import governed; import remit.governed; from remit import governed",
    ],
)
def test_governed_is_the_decorator_whether_the_module_of_that_name_is_loaded_or_not(
    imports: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program = f"""
{imports}
from remit import initialise

workspace, _ = initialise({str(project)!r}, {{"REMIT_STATE": {str(tmp_path / "state")!r}}})

@governed(workspace, "stock.count", consent="none", read_only=True)
def count(item: str) -> int:
    return len(item)

assert "stock.count" in workspace.calls.registry
workspace.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_documents_and_examples_import_only_public_names_except_those_listed_here() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in FOR_READERS
        for module in IMPORT.findall(path.read_text(encoding="utf-8"))
        if module not in PUBLIC
    }
    assert found == INTERNAL_IN_DOCUMENTS
