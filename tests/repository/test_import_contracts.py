"""The import contracts can fail: each forbidden import, planted in an empty copy of the packages, is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALWAYS_THERE = [
    *("core/ids", "masking/text", "version", "contracts/base", "plans/model/folders", "goals/outcomes"),
    # The modules that a contract names must exist.
    *("cli/help", "mcp_server/server", "services/views", "web/pages", "workspace/paths", "plans/proposals/draft"),
    *("plans/apply/executor", "plans/approval_checks", "plans/draft_operation", "plans/operation", "plans/run_queries"),
    *("plans/preparation/prepare", "plans/preview/build", "plans/preview/document", "plans/preview/inputs"),
    *("plans/preview/kept_outputs", "plans/preview/planned_effect", "plans/preview/store", "plans/service"),
]
ONE_WAY = "Imports go one way BROKEN"
EFFECTS = "Effects and the sandboxed child know only contracts"
IN_PLANS = "Inside plans"
IN_GOALS = "Inside goals"
COMPUTING = "Only two operations compute previews"
STORED = "What finds and compares stored previews"


def _lint(folder: Path, modules: dict[str, str]) -> tuple[int, str]:
    """Run the project's contracts over a package `remit` that consists of the given files."""
    package = folder / "remit"
    for name, source in {"__init__": "", **dict.fromkeys(ALWAYS_THERE, ""), **modules}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder_of in path.parents[: len(Path(name).parts)]:
            (folder_of / "__init__.py").touch()
        path.write_text(source)
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_an_empty_map_and_an_allowed_import_pass(tmp_path: Path) -> None:
    modules = {"ledger/append": "import remit.store.rows", "store/rows": "import remit.core.errors"}
    code, output = _lint(tmp_path, modules)
    assert (code, "6 kept, 0 broken" in output) == (0, True), output


@pytest.mark.req("PV-02")
@pytest.mark.parametrize(
    "modules, broken",
    [
        ({"core/errors": "import remit.contracts.base"}, ONE_WAY),
        ({"authority/lease": "import remit.execution.engine", "execution/engine": ""}, ONE_WAY),
        ({"effects/context": "import remit.store.claims", "store/claims": ""}, EFFECTS),
        (
            {"effects/context": "import remit.fs.paths", "fs/paths": "import remit.store.claims", "store/claims": ""},
            EFFECTS,
        ),
        ({"executors/__init__": "import remit.store.claims", "store/claims": ""}, EFFECTS),
        (
            {
                "executors/__init__": "import remit.effects.registry",
                "effects/registry": "import remit.crypto.signing",
                "crypto/signing": "",
            },
            EFFECTS,
        ),
        ({"executors/__init__": "import remit.sandbox.host", "sandbox/host": ""}, EFFECTS),
        ({"effects/context": "import remit.executors", "executors/__init__": ""}, ONE_WAY),
        (
            {
                "__init__": "from remit.workspace.workspace import Workspace",
                "executors/__init__": "from remit import Workspace",
                "workspace/workspace": "Workspace = 1",
            },
            EFFECTS,
        ),
        ({"sandbox/child": "import remit.crypto.signing", "crypto/signing": ""}, EFFECTS),
        ({"sandbox/child": "import remit.sandbox.host", "sandbox/host": ""}, EFFECTS),
        ({"effects/context": "import remit.tasks.kernel", "tasks/kernel": ""}, EFFECTS),
        ({"sandbox/child": "import remit.tasks.kernel", "tasks/kernel": ""}, EFFECTS),
        ({"sandbox/host": "import remit.tasks.kernel", "tasks/kernel": ""}, ONE_WAY),
        ({"execution/engine": "import remit.tasks.kernel", "tasks/kernel": ""}, ONE_WAY),
        ({"effects/context": "import remit.plans.service", "plans/service": ""}, EFFECTS),
        ({"sandbox/child": "import remit.workspace.open", "workspace/open": ""}, EFFECTS),
        ({"plans/operation": "import remit.tasks.service", "tasks/service": ""}, ONE_WAY),
        ({"browser/service": "import remit.plans.service", "plans/service": ""}, ONE_WAY),
        ({"ledger/writer": "import remit.execution.engine", "execution/engine": ""}, ONE_WAY),
        ({"approvals/service": "import remit.plans.service", "plans/service": ""}, ONE_WAY),
        ({"plans/runtime/runner": "import remit.plans.apply.executor", "plans/apply/executor": ""}, IN_PLANS),
        ({"goals/core": "import remit.goals.promotion", "goals/promotion": ""}, IN_GOALS),
        ({"goals/core": "import remit.goals.actions.runner", "goals/actions/runner": ""}, IN_GOALS),
        ({"goals/gates": "import remit.goals.service", "goals/service": ""}, IN_GOALS),
        ({"services/views": "import remit.plans.preview.build"}, COMPUTING),
        ({"web/pages": "import remit.plans.preparation.prepare"}, COMPUTING),
        ({"plans/service": "import remit.plans.preview.build"}, COMPUTING),
        (
            {
                "plans/preview/store": "import remit.plans.preview.document",
                "plans/preview/document": "import remit.plans.preview.build",
            },
            STORED,
        ),
    ],
    ids=[
        "upwards",
        "authority to the engine",
        "effects to store",
        "effects to store by way of fs",
        "executors to store",
        "executors to keys by way of effects",
        "executors to sandbox host",
        "effects to executors",
        "executors to workspace by way of the public names",
        "child to keys",
        "child to host",
        "effects to kernel",
        "child to kernel",
        "sandbox host to kernel",
        "engine to kernel",
        "effects to plans",
        "child to workspace",
        "plans to tasks",
        "browser to plans",
        "ledger to engine",
        "approvals to plans",
        "runtime to apply",
        "core of goals to promotion",
        "core of goals to what has actions signed",
        "gates to the service",
        "view to computing",
        "page to preparing",
        "service to computing",
        "stored previews to computing by way of their document",
    ],
)
@pytest.mark.req("EI-17")
def test_a_forbidden_import_is_found(tmp_path: Path, modules: dict[str, str], broken: str) -> None:
    code, output = _lint(tmp_path, modules)
    assert code == 1, output
    assert any(line.startswith(broken) and line.endswith("BROKEN") for line in output.splitlines()), output


def test_a_package_that_is_in_no_layer_is_found(tmp_path: Path) -> None:
    code, output = _lint(tmp_path, {"helpers": ""})
    assert code == 1
    assert "helpers" in output
