"""Without the browser's extra everything else works, and an action says what to install."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys
from datetime import timedelta
from pathlib import Path

for name in ("playwright", "playwright.async_api", "h11", "wsproto", "prometheus_client"):
    sys.modules[name] = None

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.workspace.create import initialise
from remit.core.ids import system_clock

folder = Path(sys.argv[1])
workspace, _ = initialise(folder, {"REMIT_STATE": sys.argv[2]}, system_clock)
with workspace:
    constraints = TokenConstraints(domains=("shop.test",))
    token = workspace.tokens.issue(TokenRequest("a", ("browser.navigate",), constraints, timedelta(hours=1))).text
    action = json.dumps({"action_id": "a", "type": "navigate", "target": "https://shop.test/"}).encode()
    print(workspace.browse(action, token).error.message)
    print(workspace.recover(), workspace.verify_ledger().holds)
"""


def test_an_action_says_what_to_install(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    command = [sys.executable, "-c", SCRIPT, str(project), str(tmp_path / "state")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "pip install 'remit[browser]'" in told
    assert told.splitlines()[-1] == "[] True"
