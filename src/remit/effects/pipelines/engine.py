"""One pipeline, in a folder of copies that the host filled: settle in, run its steps, say how each ended.

The kernel confines this process to that folder and to the modules of Remit's own Python. From the first step on nothing
here can be trusted: the code of the project runs in it, and could say whatever it likes. What it leaves in the folder
is looked at by the host, when this process is dead.
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
"""A folder beside the copies, for what the programs put anywhere else: home, temporary files, papers of dbt."""


class PipelineRun:
    """`RUN`. The steps are told as they end; there is nothing else to return."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        root = os.path.normpath(work.spots[SCRATCH].path)
        inputs = work.inputs
        prepare_process(root, work.given[LOG])
        try:
            if inputs["kind"] == "dbt":
                run_dbt(work, root, os.path.join(root, OWN), inputs["dbt"], inputs["parameters"])
            else:
                run_steps(work, root, inputs["steps"], inputs["parameters"])
            # What is done at the end of a program, such as closing a database. This process does not come to its end.
            atexit._run_exitfuncs()  # noqa: SLF001 - there is no other name for it
        finally:
            flush()
        return {}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        """Nothing of it is of use when it was cut short: it worked on copies, which the host removes."""
        return None


def prepare_process(root: str, log: int) -> None:
    """As a program expects it: in its folder, with a home, its own modules first, and a collector of garbage."""
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
