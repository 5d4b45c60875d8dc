"""Run as a user who is not root: what the operating system does not allow is said, and nothing is half done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plans.project import Project, plan_of, rename, replace

NOBODY = 65534
# May read what he is not shown, since the interpreter may lie in somebody's home; may write what is his, and no more.
AS_NOBODY = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.req("PX-22", "PX-34"),
]
SCRIPT = """
import json, sys
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    plan = open(sys.argv[2], "rb").read()
    preview = workspace.preview(plan).document
    told = {"problems": [problem.error_code for problem in preview.problems]}
    if preview.status == "READY":
        outcome = workspace.apply(workspace.approve(plan).canonical())
        told["status"] = outcome.status.status
        told["failed"] = [failed.error_code for failed in outcome.report.actions_failed]
    print(json.dumps(told))
"""


def as_nobody(project: Project, tmp_path: Path, plan: bytes) -> str:
    project.close()
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(tmp_path / "state"), str(project.root)], check=True)
    kept = tmp_path / "plan.json"
    kept.write_bytes(plan)
    (project.root / "closed").chmod(0o755)
    os.chown(project.root / "closed", 0, 0)
    done = subprocess.run(
        [*AS_NOBODY, sys.executable, "-c", SCRIPT, str(project.root), str(kept)],
        env={**project.environ, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_action_that_an_ordinary_user_may_do_is_done(project: Project, tmp_path: Path) -> None:
    project.write("open/a.txt")
    project.write("closed/b.txt")
    assert as_nobody(project, tmp_path, plan_of(replace("a", "open/a.txt"))) == (
        '{"problems": [], "status": "SUCCESS", "failed": []}'
    )
    assert project.read("open/a.txt") == "one\nTWO\nthree\n"


@pytest.mark.parametrize("way", ["modify", "rename into"])
def test_a_folder_that_is_closed_to_the_user_is_found_before_anything_runs(
    project: Project, tmp_path: Path, way: str
) -> None:
    project.write("open/a.txt")
    project.write("closed/b.txt")
    step = replace("b", "closed/b.txt") if way == "modify" else rename("b", "open/a.txt", "closed/a.txt")
    assert as_nobody(project, tmp_path, plan_of(step)) == '{"problems": [3001]}'
    assert project.read("closed/b.txt") == "one\ntwo\nthree\n"
