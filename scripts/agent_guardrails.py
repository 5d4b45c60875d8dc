"""The agent core's guardrails: ten violations that fail the build. Run by scripts/check_agent_execution_core.sh.

The static checks read the syntax trees of the sources. Further checks run the code below the same root. `--static`
omits these.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import remit
from scripts.agent_guardrails_catalogues import check_catalogues
from scripts.agent_guardrails_fields import check_fields
from scripts.agent_guardrails_reach import check_reach
from scripts.agent_guardrails_shape import check_shape
from scripts.agent_guardrails_sources import RULES, Sources, Violation
from scripts.agent_guardrails_steps import check_steps

HERE: Final = Path(__file__).resolve().parent.parent


STATIC: Final = (check_reach, check_shape, check_fields, check_catalogues, check_steps)


def static_violations(
    root: Path, checks: Sequence[Callable[[Sources], Iterator[Violation]]] = STATIC
) -> list[Violation]:
    sources = Sources(root)
    return sorted({violation for check in checks for violation in check(sources)})


def running_code_violations(root: Path) -> list[Violation]:
    """Check the running code. Exits unless it is the code below the root."""
    package = Path(remit.__file__).resolve().parent
    if package != (root / "src" / "remit").resolve():
        raise SystemExit(f"agent guardrails: remit comes from {package}; run scripts/check_agent_execution_core.sh")
    # Imported late, so that the static checks also work on sources that cannot be loaded.
    from scripts.agent_guardrails_alive import check_running_code  # noqa: PLC0415

    return sorted(set(check_running_code(root)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the agent core's guardrails.")
    parser.add_argument("--root", type=Path, default=HERE, help="the project's folder")
    parser.add_argument("--static", action="store_true", help="read the sources only, run nothing")
    chosen = parser.parse_args(arguments)
    found = static_violations(chosen.root)
    if not found and not chosen.static:
        found = running_code_violations(chosen.root)
    for violation in found:
        sys.stderr.write(f"agent guardrail {violation}\n")
    sys.stdout.write(f"agent guardrails: {len(RULES)} rules, {len(found)} violations\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
