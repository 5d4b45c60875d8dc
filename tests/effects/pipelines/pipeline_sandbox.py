"""A folder of copies with a small project in it, things outside of it, and the real sandbox for programs."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from remit.plans.engines.pipeline import BUILD, EFFECT, DbtCall, PipelineEngine, PipelineResult, Program
from remit.sandbox.host import SandboxHost
from remit.sandbox.orders import Quotas

ROOT: Final = Path(__file__).resolve().parents[3]
MIB: Final = 1 << 20
QUOTAS: Final = Quotas(memory_bytes=400 * MIB, read_bytes=1024 * MIB, write_bytes=128 * MIB, seconds=120.0)
SECRET: Final = "the secret outside"
_BEGINNING: Final = """
import ctypes, fcntl, json, mmap, multiprocessing, os, resource, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def must(answer):
    "For calls of C, and for those that answer instead of raising."
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return answer

"""


def dbt_packages() -> Path | None:
    """Where `make` has put dbt, which cannot be with the tools of development."""
    found = next((ROOT / ".cache" / "dbt" / "lib").glob("python*/site-packages/dbt"), None)
    return None if found is None else found.parent


def make_host(
    folder: Path, quotas: Quotas = QUOTAS, *, confined: bool = True, packages: Sequence[str] = ()
) -> SandboxHost:
    lock = folder / "hosts" / "this.lock"
    return SandboxHost([EFFECT], quotas, confined=confined, lock=lock, import_paths=packages, build=BUILD)


class Bench:
    """`scratch` is what the host would have filled with copies; `outside` is a folder that nothing was granted in."""

    def __init__(self, root: Path, host: SandboxHost) -> None:
        self.host = host
        self.scratch = root / "scratch"
        self.outside = root / "outside"
        for folder in (self.scratch, self.outside):
            folder.mkdir(parents=True)
        self.secret = self.outside / "secret.txt"
        self.secret.write_text(SECRET)
        self.heard: list[tuple[int, int, str]] = []

    def write(self, path: str, text: str) -> Path:
        file = self.scratch / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    def run(
        self,
        *steps: str,
        parameters: Mapping[str, Any] | None = None,
        seconds: float = 30.0,
        dbt: DbtCall | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> PipelineResult:
        engine = PipelineEngine(lambda: self.host, "task-1", is_cancelled)
        kind: Any = "python" if dbt is None else "dbt"
        program = Program(kind, steps, parameters or {}, dbt, seconds)
        return engine.run(program, self.scratch, on_step=lambda *said: self.heard.append(said))

    def probe(self, body: str, *, seconds: float = 30.0, **parameters: Any) -> PipelineResult:
        """One step with this body. `job`, `outside`, many modules and `must` are there."""
        lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        self.write("probe.py", f'{_BEGINNING}def run(job):\n    outside = job.parameters["outside"]\n{lines}\n')
        return self.run("probe:run", parameters={"outside": str(self.outside), **parameters}, seconds=seconds)

    def attempt(self, body: str) -> str:
        """What came of something that may be refused: `done`, or the error in a word."""
        lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        ran = self.probe(
            f"try:\n{lines}\nexcept OSError as problem:\n    print(type(problem).__name__)\n    return 0\nreturn 1"
        )
        assert ran.problem is None, (ran.problem, ran.log)
        return "done" if ran.steps[0].rows == 1 else ran.log[-1]
