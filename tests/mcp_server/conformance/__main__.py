"""`make conformance`: the official conformance suite against the fixture, for each revision that Remit speaks.

Usage: python -m tests.mcp_server.conformance SUITE, where SUITE is the folder that holds its node_modules.
"""

import asyncio
import json
import logging
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from mcp.client.client import Client

from remit.mcp_server.server import TOOLS
from tests.mcp_server.conformance.fixture import serving_fixture

REVISIONS: Final = ("2025-11-25", "2026-07-28")
EXPECTED: Final = Path(__file__).with_name("expected_failures.yaml")
FIXTURE_TOOLS: Final = frozenset(
    {
        "json_schema_2020_12_tool",
        "test_audio_content",
        "test_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_embedded_resource",
        "test_error_handling",
        "test_header_tool",
        "test_image_content",
        "test_input_required_result_capabilities",
        "test_input_required_result_elicitation",
        "test_input_required_result_list_roots",
        "test_input_required_result_multi_round",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_request_state",
        "test_input_required_result_sampling",
        "test_input_required_result_tampered_state",
        "test_missing_capability",
        "test_multiple_content_types",
        "test_sampling",
        "test_simple_text",
        "test_tool_with_progress",
    }
)
LONGEST: Final = 300


def main(arguments: list[str]) -> int:
    suite = Path(arguments[0])
    logging.getLogger("mcp").setLevel(logging.ERROR)  # the suite tries what is refused, and a refusal is a warning
    with tempfile.TemporaryDirectory() as folder, serving_fixture(Path(folder)) as address:
        # A tool that is missing would pass a scenario that only asks for an error.
        wanted = FIXTURE_TOOLS | {spec.name for spec in TOOLS}
        if (found := asyncio.run(_tools(address))) != wanted:
            sys.stderr.write(f"the fixture's tools are not the ones expected: {sorted(found ^ wanted)}\n")
            return 1
        ended = [_run(suite, address, revision) for revision in REVISIONS]
    return int(not all(ended))


async def _tools(address: str) -> set[str]:
    async with Client(address) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


def _run(suite: Path, address: str, revision: str) -> bool:
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    modules = suite / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance"
    node = modules / f"node-linux-{machine}" / "bin" / "node"
    command = [node, program / "dist" / "index.js", "server", "--url", address, "--requirements", revision]
    version = json.loads((program / "package.json").read_bytes())["version"]
    done = subprocess.run(
        [*map(str, command), "--expected-failures", str(EXPECTED)],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if done.returncode != 0:
        sys.stdout.write(done.stdout + done.stderr)
    passed, failed = (
        len(re.findall(rf"^\S*{mark}.*: \d+ passed, \d+ failed", done.stdout, re.MULTILINE)) for mark in "✓✗"
    )
    verdict = "as expected" if done.returncode == 0 and passed else "NOT as expected"
    sys.stdout.write(f"MCP {revision}, suite {version}: {verdict}; {passed} scenarios pass, {failed} fail\n")
    return done.returncode == 0 and passed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
