"""Runs one pipeline in a folder of copies that the host filled, and reports how each step ends.

The Linux kernel confines this process to that folder and to the modules of Remit's own Python. From the first step on
the host trusts nothing that this process reports, because the code of the project runs in it. After the process has
ended, the host checks the files in the folder itself.
"""

import atexit
import gc
import os
import sys
from typing import Any, Final

from remit.effects.context import Effect, EffectContext
from remit.effects.pipelines.dbt import run_dbt
from remit.effects.pipelines.output_capture import flush, redirect_output
from remit.effects.pipelines.preload import preload
from remit.effects.pipelines.python import run_steps

SCRATCH: Final = "scratch"
LOG: Final = "log"
OWN: Final = ".remit-pipeline"
"""A folder beside the copies for all other files of the programs: home, temporary files, files of dbt."""


class PipelineRun:
    """The effect `RUN`. It reports the steps as they end and returns nothing else."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        root = os.path.normpath(work.spots[SCRATCH].path)
        inputs = work.inputs
        prepare_process(root, work.given[LOG])
        try:
            if inputs["kind"] == "dbt":
                run_dbt(work, root, os.path.join(root, OWN), inputs["dbt"], inputs["parameters"])
            else:
                run_steps(work, root, inputs["steps"], inputs["parameters"])
            # Run the exit functions of the program, for example to close a database. This process does not exit
            # normally.
            atexit._run_exitfuncs()  # noqa: SLF001 - there is no public function for it
        finally:
            flush()
        return {}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        """Return None. An interrupted run leaves nothing useful: it worked on copies, and the host removes them."""
        return None


def prepare_process(root: str, log: int) -> None:
    """Prepare the process for a program: its folder, a home, its own modules first, and garbage collection."""
    os.chdir(root)
    for name, variable in (("home", "HOME"), ("tmp", "TMPDIR")):
        folder = os.path.join(root, OWN, name)
        os.makedirs(folder, exist_ok=True)
        os.environ[variable] = folder
    sys.path.insert(0, root)
    sys.argv = ["pipeline"]
    sys.dont_write_bytecode = True
    gc.enable()
    redirect_output(log)


preload()

RUN: Final[Effect] = PipelineRun()
