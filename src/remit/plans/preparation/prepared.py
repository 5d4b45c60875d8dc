"""What the actions of a plan left that were tried out on copies, and what they are tried out with."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.preview import PreviewedRemark
from remit.contracts.plans.sql_report import SqlPreviewed
from remit.core.errors import RemitError
from remit.effects.plans.steps import PlanStep
from remit.plans.engines.duckdb import Engine
from remit.plans.engines.pipeline import PipelineEngine
from remit.plans.model.simulation_result import StepFinding
from remit.plans.preparation.remote_sql import PreparedStatements, Servers

OnAction = Callable[[int, int, str], None]
"""So many of so many actions have run, and this one is running."""


@dataclass(frozen=True)
class PreparedAll:
    """Of one plan. Nothing, for a plan that only edits files. Whoever has it closes it."""

    steps: tuple[PlanStep, ...] = ()
    descriptors: dict[str, int] = field(default_factory=dict)
    """By `PlanStep.source`."""
    sql: dict[int, SqlPreviewed] = field(default_factory=dict)
    """By the number of the step, of those that could be run."""
    pipelines: dict[str, PipelineTold] = field(default_factory=dict)
    """By the id of the action, also of those that failed half way."""
    remarks: list[PreviewedRemark] = field(default_factory=list)
    inputs: tuple[ApprovedInput, ...] = ()
    """What is only read: texts, code, databases, and whole folders."""
    findings: list[tuple[str, StepFinding]] = field(default_factory=list)
    """In files that an action made, by path: what a person has to approve."""
    broken_rule: RemitError | None = None
    """What the first rule about rows says that would not hold, if the rules were tried."""

    def close(self) -> None:
        while self.descriptors:
            _, descriptor = self.descriptors.popitem()
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Engines:
    """What actions are tried out with."""

    engine: Engine
    programs: PipelineEngine
    work: Path
    """Where work folders are made."""
    servers: Servers
    on_progress: OnAction = lambda _done, _total, _what: None
    tries_rules: bool = False
    """Whether rules about rows are tried as well. Where the plan is carried out, they are checked afterwards."""


class PreparedOutputs(NamedTuple):
    """What was made ready before the intent, and dies with this process."""

    files: Mapping[str, int]
    """What actions have left, open, by the names of the steps' sources."""
    remote: PreparedStatements | None = None
