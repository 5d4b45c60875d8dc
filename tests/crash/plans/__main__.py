"""The full run: first prove that the harness finds planted bugs, then stop every plan at every point, in every way.

    python -m tests.crash.plans [--workers N] [--only TEXT] [--thin N]

Needs root, for disks of its own, and the machine for itself. Exit code 1 if anything was found that should not be
there, or not found that should.
"""

from tests.crash.plans.jobs import FULL, SABOTAGED
from tests.crash.tasks.__main__ import main
from tests.crash.tasks.jobs import PLANTED

if __name__ == "__main__":
    main((*PLANTED, *SABOTAGED), FULL)
