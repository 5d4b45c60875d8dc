"""The results of a plan's actions that ran on copies, and the engines that run them."""

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
"""Called with the number of actions that have run, their total, and the name of the running one."""


class FolderInput(NamedTuple):
    """How the digest of a folder that a pipeline reads was made. It is made the same way when the plan is applied."""

    without: frozenset[str]
    """Names directly below the folder that are left out."""
    made: frozenset[str]
    """Files below it that earlier actions of the plan had made. The approval binds their inputs instead."""


@dataclass(frozen=True)
class PreparedAll:
    """The prepared files of one plan, none for a plan that only edits files. The owner must close it."""

    steps: tuple[PlanStep, ...] = ()
    descriptors: dict[str, int] = field(default_factory=dict)
    """Open files by `PlanStep.source`."""
    sql: dict[int, SqlPreviewed] = field(default_factory=dict)
    """The SQL actions that could be run, by the number of the step."""
    pipelines: dict[str, PipelineTold] = field(default_factory=dict)
    """The pipelines by the id of the action, including those that failed before their end."""
    remarks: list[PreviewedRemark] = field(default_factory=list)
    inputs: tuple[ApprovedInput, ...] = ()
    """The files that are only read: queries, code, databases, and whole folders."""
    findings: list[tuple[str, StepFinding]] = field(default_factory=list)
    """Findings that a person must approve in files that an action made, with their paths."""
    broken_rule: RemitError | None = None
    """The error of the first rule about rows that would not hold, if the rules were tried."""
    folder_inputs: dict[str, FolderInput] = field(default_factory=dict)
    """The folders among the inputs."""
    milliseconds: dict[str, int] = field(default_factory=dict)
    """How long each action ran, by its id."""

    def close(self) -> None:
        while self.descriptors:
            _, descriptor = self.descriptors.popitem()
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that run actions on copies."""

    engine: Engine
    programs: PipelineEngine
    work: Path
    """The folder in which work folders are made."""
    servers: Servers
    on_progress: OnAction = lambda _done, _total, _what: None
    tries_rules: bool = False
    """Whether rules about rows are tried as well. When a plan is applied, they are checked afterwards instead."""


class PreparedOutputs(NamedTuple):
    """The results that were prepared before the intent: open files, and statements that are about to run."""

    files: Mapping[str, int]
    """The open files that actions left, by the names of the steps' sources."""
    remote: PreparedStatements | None = None
