"""Code gets into a sandboxed process from one place: the registered effects. Nobody else can slip some in."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from remit.effects.registry import PathUse
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import FolderGrant, Order
from tests.sandbox.hostile_sandbox import ROOMY, Arena, make_arena

EFFECT = """
import json, os, sys
from planted_effects import more

class Effect:
    def run(self, work):
        return {"json": json.__file__, "path": sys.path, "more": more.__file__, "flags": sys.flags.isolated}

    def settle(self, work, *, finish):
        return None

EFFECT = Effect()
"""


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return make_arena(tmp_path / "arena")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A package of somebody's, installed where only its owner can write, and never imported so far."""
    package = tmp_path / "code" / "planted_effects"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "more.py").write_text("")
    (package / "effect.py").write_text(EFFECT)
    for path in (package.parent, package):
        path.chmod(0o755)
    return package.parent


def seen_from_inside(arena: Arena, code: Path) -> dict[str, object]:
    effect = "planted_effects.effect:EFFECT"
    places = {"target": FolderGrant(str(arena.inside), ("made",), "target.bin", PathUse.MAKE)}
    order = Order(effect, "run", "task-1", "HOSTILE", {}, False, ".remit-0123456789abcdef01234567.part", places)
    with SandboxHost([effect], ROOMY, lock=arena.lock, import_paths=[str(code)]) as host:
        output = host.run(order).output
    assert output is not None
    return output


@pytest.mark.req("EI-17")
def test_neither_the_environment_nor_the_current_folder_adds_code(
    arena: Arena, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    for name in ("json", "sitecustomize", "usercustomize", "remit"):
        (planted / f"{name}.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(planted)
    monkeypatch.setenv("PYTHONPATH", str(planted))
    monkeypatch.setenv("PYTHONSTARTUP", str(planted / "json.py"))
    seen = seen_from_inside(arena, code)
    assert seen["flags"] == 1
    assert str(planted) not in str(seen)
    control = subprocess.run([sys.executable, "-c", "import json"], capture_output=True, text=True, check=False)
    assert "planted" in control.stderr, "the control"


@pytest.mark.req("EI-17")
def test_compiled_code_that_the_interpreter_keeps_can_be_written_only_by_its_owner(
    arena: Arena, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can put a file next to compiled code has a say in what the next process runs."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    mask = os.umask(0o022)
    try:
        seen_from_inside(arena, code)
    finally:
        os.umask(mask)
    kept = list(code.rglob("*"))
    assert [path for path in kept if path.suffix == ".pyc"], "the control: something was kept"
    assert [str(path) for path in kept if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)] == []
