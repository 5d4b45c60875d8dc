"""`remit doctor`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from remit import __version__
from remit.cli.common.options import (
    counted,
    json_option,
    render_advice,
    show_json,
    show_table,
    speaks_unicode,
    terminal_width,
    workspace_option,
)
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import Clock, system_clock
from remit.diagnostics.check import Check, Status, Topic
from remit.diagnostics.checkup import Checkup, check_machine, check_settings, check_state_home, check_workspace
from remit.diagnostics.connections import check_connections
from remit.diagnostics.disk import STATE
from remit.diagnostics.goals import FileFindings, Promoted, check_goals
from remit.diagnostics.pipelines import check_pipelines
from remit.diagnostics.web import check_web
from remit.diagnostics.workspace import REPORTS, check_reports
from remit.fs.state_dir import locate_state
from remit.goals.catalogue.deep_check import check_policies, check_with_queries
from remit.goals.catalogue.files import CatalogueFinding
from remit.plans.engines.database_files import require_idle
from remit.plans.engines.pipeline import require_dbt
from remit.sandbox.kernel_probes import probe_exchange
from remit.web.config.hosts import is_loopback
from remit.workspace.workspace import Workspace, WorkspaceSettings, find_root, open_store, read_settings

WORKSPACE: Final = Topic("workspace", "work in this folder")
CONFIG: Final = Topic("configuration", "work in this folder")
EXCHANGE: Final = Topic("exchange", "plans that change files")

COLOURS: Final[dict[Status, str]] = {"ok": "green", "warn": "yellow", "fail": "red", "absent": "cyan"}
GLYPHS: Final[dict[Status, str]] = {"ok": "✓", "warn": "!", "fail": "✗", "absent": "·"}
PLAIN_GLYPHS: Final[dict[Status, str]] = {"ok": "+", "warn": "!", "fail": "x", "absent": "-"}


@click.command()
@workspace_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Check this machine and workspace, and say what to do.

    It works in any folder. In a workspace, it also checks the keys and the store. It does not load any private key.

    The exit code is 0 if nothing failed, also with warnings, and 1 if something that is needed failed.
    """
    found = examine(directory, os.environ, system_clock)
    if as_json:
        show_json({"remit_version": __version__, **found.as_json()})
    else:
        _show(found)
    ctx.exit(0 if found.passed else 1)


def examine(directory: Path, environ: Mapping[str, str], clock: Clock) -> Checkup:
    """Check this machine and the workspace that contains `directory`."""
    try:
        root = find_root(directory, environ)
    except (RefusedError, OSError) as problem:
        place = (*check_machine(environ, clock), *check_state_home(environ))
        if isinstance(problem, RefusedError):
            return Checkup(place, (WORKSPACE.absent(f"{problem.what} ({problem.where})", problem.next_step),))
        return Checkup(place, (WORKSPACE.failed(problem),))
    machine = check_machine(environ, clock, has_sqlite_ledger=_has_sqlite_ledger(root, environ))
    return Checkup(machine, examine_workspace(root, environ, clock))


def _has_sqlite_ledger(root: Path, environ: Mapping[str, str]) -> bool:
    try:
        return read_settings(locate_state(root, environ)).store == "sqlite"
    except (RemitError, OSError, RuntimeError):
        return True  # the default; the checks of the workspace report the problem


def examine_workspace(root: Path, environ: Mapping[str, str], clock: Clock) -> tuple[Check, ...]:
    """Check only the workspace."""
    try:
        state = locate_state(root, environ)
    except (RemitError, OSError, RuntimeError) as problem:  # RuntimeError: a path that links to itself
        return (STATE.failed(problem),)

    def settings() -> WorkspaceSettings:
        return read_settings(state)

    config_checks: list[Check] = []

    def config() -> Check:
        found = Workspace(root, state, settings(), environ, clock).config
        config_checks.extend(check_settings(found, state))
        folder = str(root / found.root)
        config_checks.append(EXCHANGE.run(lambda: check_exchange(folder)))
        config_checks.append(REPORTS.run(lambda: check_reports(Path(folder))))
        config_checks.extend(
            check_connections(found, folder, environ, lambda place, writes: require_idle(place, writes=writes))
        )
        config_checks.extend(check_pipelines(found, folder, require_dbt))
        config_checks.extend(check_web(found.web, is_loopback, clock))
        config_checks.extend(inspect_goals(root, environ, clock))
        return CONFIG.ok(f"{root / 'remit.yaml'} is valid")

    try:
        has_database = settings().store == "sqlite"
    except (OSError, RemitError):
        has_database = True  # the default; a problem of the settings is reported below
    return (
        WORKSPACE.run(lambda: WORKSPACE.ok(f"{root}, ledger in {settings().store}")),
        CONFIG.run(config),
        *config_checks,
        *check_workspace(state, lambda: open_store(state, settings(), environ), clock, has_database=has_database),
    )


def inspect_goals(root: Path, environ: Mapping[str, str], clock: Clock) -> list[Check]:
    """Check the catalogues, the policies and the promoted simulations of a workspace."""
    with Workspace(root, state := locate_state(root, environ), read_settings(state), environ, clock) as workspace:
        config, folder = workspace.config, (root / workspace.config.root).resolve()

        def read_catalogue() -> FileFindings:
            simulations, findings = check_with_queries(folder, config, lambda: workspace.sandboxes)
            return _to_file_findings(len(simulations), findings)

        def read_policies() -> FileFindings:
            return _to_file_findings(len(config.policies.cedar_files), check_policies(folder, config))

        def read_promoted(tenant: str) -> Promoted:
            status = workspace.promotion.status(tenant)
            return Promoted(len(status.active), status.changed, status.missing)

        return check_goals(config, read_catalogue, read_policies, read_promoted)


def _to_file_findings(count: int, findings: Sequence[CatalogueFinding]) -> FileFindings:
    first = findings[0] if findings else None
    first_finding = (f"{first.what} ({first.where})", first.next_step) if first else ("", "")
    return FileFindings(count, len(findings), *first_finding)


def check_exchange(folder: str) -> Check:
    """Check that two files can be exchanged in one step. Plans change files only by such an exchange."""
    probe = probe_exchange(folder)
    if probe.works:
        return EXCHANGE.ok(probe.found)
    if not probe.tried:
        return EXCHANGE.warn(probe.found, "Make sure that you can write to the folder of the project, and check again.")
    advice = "Move the project to ext4, XFS, Btrfs or tmpfs, where plans can change files. Tasks do not need this."
    return EXCHANGE.fail(f"two files cannot be exchanged in one step here ({probe.found})", advice)


def _show(found: Checkup) -> None:
    glyphs = GLYPHS if speaks_unicode() else PLAIN_GLYPHS
    for title, checks in (("Machine", found.machine), ("Workspace", found.workspace)):
        click.secho(title, bold=True)
        show_table(("status", "check", "found"), [_row(check, glyphs) for check in checks], prose=("found",))
        click.echo()
    todo = [check for check in (*found.machine, *found.workspace) if check.status != "ok"]
    if todo:
        click.secho("What to do", bold=True)
    for check in todo:
        mark = click.style(f"{glyphs[check.status]} {check.status}", fg=COLOURS[check.status])
        click.echo(f"{mark} {check.name} (for {check.needed_for}):")
        click.echo(render_advice(check.next_step, terminal_width()))
    click.echo(_summary(found))


def _row(check: Check, glyphs: Mapping[Status, str]) -> tuple[object, ...]:
    from rich.text import Text  # noqa: PLC0415 - as in `show_table`: a heavy import, needed only for tables

    mark = Text(f"{glyphs[check.status]} {check.status}", style=COLOURS[check.status])
    return mark, check.name, check.found


def _summary(found: Checkup) -> str:
    counts = f"{found.count('ok')} ok, {counted(found.count('warn'), 'warning')}, {found.count('absent')} absent"
    if found.passed:
        return f"{click.style('Ready', fg='green', bold=True)}: {counts}, nothing failed."
    return f"{click.style('Not ready', fg='red', bold=True)}: {found.count('fail')} failed, {counts}."
