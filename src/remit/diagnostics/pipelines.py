"""Checks of the pipelines that remit.yaml registers. They check names only, and run or load no code."""

import os
from collections.abc import Callable
from typing import Final

from remit.contracts.config.config import DbtPipeline, PythonPipeline, SystemConfig
from remit.core.errors import Reason, RefusedError
from remit.diagnostics.check import Check, Topic
from remit.fs import openat as beneath
from remit.fs.paths import locate_below
from remit.plans.policy.pipelines import files_of, find_definition_denials

MAX_PIPELINES: Final = 50
"""A limit, so that `remit doctor` stays quick."""


def check_pipelines(config: SystemConfig, root: str, require_dbt: Callable[[], None]) -> list[Check]:
    """Return one check for each pipeline, sorted by name. `require_dbt` refuses if dbt is not installed."""
    found = []
    for name in sorted(config.pipelines)[:MAX_PIPELINES]:
        topic = Topic(f"pipeline {name}", "plans that run it")

        def check(topic: Topic = topic, name: str = name) -> Check:
            return _check(topic, name, config, root, require_dbt)

        found.append(topic.run(check))
    return found


def _check(topic: Topic, name: str, config: SystemConfig, root: str, require_dbt: Callable[[], None]) -> Check:
    pipeline = config.pipelines[name]
    for denial in find_definition_denials(name, config):
        return topic.fail(denial.what, denial.next_step)
    if isinstance(pipeline, DbtPipeline):
        try:
            require_dbt()
        except RefusedError as problem:
            return topic.warn(problem.what, problem.next_step)
    missing = [path for path in files_of(name, config).reads if not _exists_below(root, path)]
    if missing:
        return topic.warn(f"{', '.join(missing[:5])}: missing", "Create what it reads, or correct it in remit.yaml.")
    if isinstance(pipeline, PythonPipeline) and (modules := _missing_modules(pipeline, root)):
        return topic.warn(
            f"{', '.join(modules[:5])}: no such module", "Create it in its package, or correct `steps` in remit.yaml."
        )
    if isinstance(pipeline, DbtPipeline):
        return topic.ok(f"dbt {pipeline.command}, {pipeline.project}")
    count = len(pipeline.steps)
    return topic.ok(f"{pipeline.type}, {count} step{'' if count == 1 else 's'}")


def _missing_modules(pipeline: PythonPipeline, root: str) -> list[str]:
    """Return the modules that are neither a file nor a folder. Their functions are checked when a plan loads them."""
    modules = dict.fromkeys(step.partition(":")[0] for step in pipeline.steps)
    paths = {module: module.replace(".", "/") for module in modules}
    return [
        module for module, path in paths.items() if not (_exists_below(root, f"{path}.py") or _exists_below(root, path))
    ]


def _exists_below(root: str, path: str) -> bool:
    """Return whether the path exists. Refuses a path through a link."""
    place = locate_below(root, path)
    base = beneath.open_base(place.base)
    try:
        folder = beneath.open_folder(base, place.parents, where=path)
    except RefusedError as problem:
        if problem.reason is not Reason.FILE_MISSING:
            raise
        return False
    finally:
        os.close(base)
    try:
        return beneath.exists(folder, place.name)
    finally:
        os.close(folder)
