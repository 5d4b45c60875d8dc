"""The API against its own description: schemathesis makes thousands of calls, good ones and bad ones, and each answer
must be one that the description names. Run as a program for the long version (`make conformance`).

Left out is the stream of events, which has no end; its own tests are in test_events.py.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from remit.web.http.access_log import route_of
from tests.plans.project import plan_of, replace
from tests.support.task_workspace import manifest
from tests.support.web_server import ALL_CAPS, NOBODY, WebSite, Who

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "unsupported_method",
)
FAILURE: Final = 500
ENDLESS: Final = "/v1/events"
PROGRAM: Final = Path(sys.executable).with_name("schemathesis")


class Counted:
    """Around the served application: how many answers of each status there were."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.statuses: Counter[int] = Counter()
        self.by_route: Counter[tuple[str, int]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
                self.by_route[route_of(scope), message["status"]] += 1
            await send(message)

        await self.app(scope, receive, counted)


def fuzz(
    site: WebSite,
    who: Who,
    ids: dict[str, str],
    examples: int,
    seed: int,
    phases: str = "examples,coverage,fuzzing",
    without: tuple[str, ...] = (),
) -> str:
    """What schemathesis found; empty if that is nothing. `without` names operations that are left out."""
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "openapi.json"
        described.write_text(json.dumps(with_examples(site.get("/v1/openapi.json").tree, ids)))
        headers = [f"--header={name}: {value}" for name, value in who.headers.items()]
        command = [
            *(str(PROGRAM), "run", str(described), f"--url={site.url}", f"--checks={','.join(CHECKS)}"),
            *(f"--exclude-path={ENDLESS}", f"--phases={phases}", f"--max-examples={examples}", f"--seed={seed}"),
            *("--no-shrink", "--continue-on-failure", "--suppress-health-check=all", "--no-color", "--warnings=off"),
            *("--request-timeout=60", *headers, *(f"--exclude-operation-id={name}" for name in without)),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def known_ids(site: WebSite) -> dict[str, str]:
    """Things that are there, so that not every address leads nowhere."""
    task = json.loads(manifest("fuzzed-task"))
    lease = site.post("/v1/leases", {"manifest": task}, site.admin).tree
    site.post("/v1/tasks", {"manifest": task, "lease": lease}, site.bot)
    site.project.write("fuzzed.txt")
    plan = json.loads(plan_of(replace("a", "fuzzed.txt")))
    made = site.post("/v1/plans", {"plan": plan}, site.bot, Idempotency_Key="fuzzed").tree
    return {"task_id": "fuzzed-task", "proposal_id": made["proposal_id"], "tenant": "default", "seq": "1"}


def with_examples(described: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    for operations in described["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)  # else it would replace the credential that we give it
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] in ids:
                    parameter["example"] = ids[parameter["name"]]
    return described


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    wanted = parser.parse_args(arguments).calls
    folder = Path(tempfile.mkdtemp(prefix="remit-fuzz-"))
    site = WebSite(folder)
    assert site.app.middleware_stack is not None
    counted = site.app.middleware_stack = Counted(site.app.middleware_stack)
    user = {"user": "ada", "tenant": "acme"}
    found, seed, ids = "", 1, known_ids(site)
    calls = failed = 0
    try:
        while calls < wanted and not found:
            # Each is made when it is its turn: the one before may have found it in a list, and taken its right away.
            own = f"fuzzer-{seed}"
            callers: dict[str, Callable[[], Who]] = {
                "a person": partial(site.person, "admin", own, **user),
                "an agent": partial(site.agent, own, *ALL_CAPS, **user),
                "nobody": lambda: NOBODY,
            }
            for name, make in callers.items():
                counted.statuses.clear()
                who = make()
                found += fuzz(site, who, ids, 50, seed)
                statuses = counted.statuses
                told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
                print(f"seed {seed}, {name}: {sum(statuses.values())} calls ({told})", flush=True)  # noqa: T201
                calls += sum(statuses.values())
                failed += sum(count for status, count in statuses.items() if status >= FAILURE)
                if who is not NOBODY and statuses[401] * 10 > sum(statuses.values()):
                    found += f"{name} was not known most of the time: what was tried says nothing.\n"
            seed += 1
    finally:
        site.close()
        shutil.rmtree(folder)
    print(found or f"{calls} calls: no answer was a 5xx, and none undocumented.")  # noqa: T201
    return 1 if found or failed else 0


if __name__ == "__main__":
    sys.exit(main())
