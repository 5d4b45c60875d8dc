"""`remit catalogue`: lists, checks, promotes and retires simulations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.options import counted, json_option, show_json, show_table, workspace_option
from remit.cli.common.tenants import choose_tenant, tenant_option
from remit.core.errors import Reason, RefusedError
from remit.core.ids import tenant_flag
from remit.identity.person import person_at_terminal
from remit.services.catalogue import clean_reason, make_line, make_state_view
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
    from remit.ledger.goal_queries import PromotedState

reason_option: Final = click.option("--reason", help="The reason, for the ledger.")
as_option: Final = click.option("--as", "name", help="Your name for the ledger, beside the name of your account.")


@click.group()
def catalogue() -> None:
    """Check, promote and retire the simulations that users ask for.

    Simulations are written in the files that remit.yaml names under `goals`. A simulation that no person has promoted
    is a draft, and never runs. A promoted simulation that changes is a draft again.
    """


@catalogue.command("list")
@tenant_option
@workspace_option
@json_option
def list_simulations(tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """List all simulations, with their states for the tenant."""
    with Workspace.open(directory) as workspace:
        tenant = choose_tenant(workspace, tenant_id)
        entries = workspace.promotion.catalogue(tenant)
        status = workspace.promotion.status(tenant)
        flag = tenant_flag(tenant, workspace.config.tenants)
    if as_json:
        show_json(
            {
                "tenant_id": tenant,
                "catalogue_ref": entries.ref,
                "simulations": [_short(entry, entries) for entry in entries],
                "changed": list(status.changed),
                "gone": list(status.missing),
            }
        )
        return
    if not entries.entries:
        click.echo(
            "There are no simulations. Write some, and name their files in remit.yaml: goals: {catalogue: [...]}"
        )
    else:
        show_table(
            ("simulation", "version", "state", "impact", "risk", "access", "rolled back by"),
            [row for entry in entries for row in _rows(entry, entries)],
        )
    for name in status.missing:
        what = f"{name} is ACTIVE, but no file contains it any more, so it cannot run"
        click.echo(f"note: {what}; restore it, or: remit catalogue retire {name}{flag}", err=True)
    for name in status.changed:
        what = f"{name} was changed since it was promoted, so it is a draft again"
        click.echo(f"note: {what}; read it, then: remit catalogue promote {name}{flag}", err=True)


@catalogue.command()
@click.argument("simulation_id", metavar="ID")
@tenant_option
@workspace_option
@json_option
def show(simulation_id: str, tenant_id: str | None, directory: Path, as_json: bool) -> None:
    """Show one simulation, with the digest for `promote --digest`."""
    with Workspace.open(directory) as workspace:
        tenant = choose_tenant(workspace, tenant_id)
        entries = workspace.promotion.catalogue(tenant)
        entry = entries.find(simulation_id)
        state = workspace.promotion.states(tenant).get(simulation_id)
        flag = tenant_flag(tenant, workspace.config.tenants)
    if entry is None:
        raise RefusedError(
            Reason.SIMULATION_UNKNOWN,
            "no file of the catalogue has such a simulation",
            where=f"simulation {simulation_id}",
            next_step=f"See: remit catalogue list{flag}",
        )
    last = _to_tree(state) if state else None
    if as_json:
        tree = {"tenant_id": tenant, "state": entry.state, "digest": entry.digest, "last_change": last}
        show_json({**tree, **_steps(entry, entries), "simulation": entry.simulation.tree()})
        return
    title = entry.simulation.title_in("en")
    click.echo(f"{display_name(title)} ({entry.simulation.id}), {entry.state} for {display_name(tenant)}")
    click.echo(f"digest: {entry.digest}")
    if last:
        same = "" if last["digest"] == entry.digest else ", for an earlier definition"
        click.echo(f"{last['state']} since {last['changed_at'][:19]}Z by {display_name(last['by'])}{same}")
    _print_steps(entry, entries)
    show_json(entry.simulation.tree())


@catalogue.command()
@workspace_option
@json_option
@click.pass_context
def check(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Check the catalogue, its queries and the access policies.

    The command does not open a database. Exit code 0 if there are no findings, 1 otherwise.
    """
    from remit.goals.catalogue.deep_check import check_policies, check_with_queries  # noqa: PLC0415 - `--help` does not need it

    with Workspace.open(directory) as workspace:
        config = workspace.config
        root = (workspace.root / config.root).resolve()
        definitions, findings = check_with_queries(root, config, lambda: workspace.sandboxes)
    findings += check_policies(root, config)
    if as_json:
        findings_tree = [{"where": each.where, "what": each.what, "next_step": each.next_step} for each in findings]
        show_json({"files": list(config.goals.catalogue), "simulations": len(definitions), "findings": findings_tree})
    else:
        for each in findings:
            click.echo(f"{display_name(each.where)}: {display_name(each.what)}\n  next: {display_name(each.next_step)}")
        files = counted(len(config.goals.catalogue), "file")
        found = counted(len(findings), "finding") if findings else "no findings"
        click.echo(f"{counted(len(definitions), 'simulation')} in {files}: {found}")
    ctx.exit(1 if findings else 0)


@catalogue.command()
@click.argument("simulation_id", metavar="ID")
@tenant_option
@click.option(
    "--digest", help="The digest that `show` prints. If the simulation has changed since, it is not promoted."
)
@reason_option
@as_option
@workspace_option
@json_option
def promote(
    simulation_id: str,
    tenant_id: str | None,
    digest: str | None,
    reason: str | None,
    name: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Make a simulation ACTIVE for a tenant, exactly as it is now. An agent cannot do this."""
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        tenant = choose_tenant(workspace, tenant_id)
        entry = workspace.promotion.promote(
            simulation_id, tenant_id=tenant, who=who, reason=clean_reason(reason), digest=digest
        )
        catalogue = workspace.promotion.catalogue(tenant)
        flag = tenant_flag(tenant, workspace.config.tenants)
    undo = catalogue.find(entry.simulation.rollback) if entry.simulation.rollback else None
    if undo is not None and undo.state != "ACTIVE":
        obstacle = f"its rollback {undo.simulation.id} is {undo.state}, so it cannot be rolled back yet"
        click.echo(f"note: {obstacle}: remit catalogue promote {undo.simulation.id}{flag}", err=True)
    _note_inactive_steps(entry, catalogue, flag)
    _print_state(entry.simulation.id, tenant, "ACTIVE", entry.digest, as_json=as_json, more=_steps(entry, catalogue))
    if not as_json:
        _print_steps(entry, catalogue)


@catalogue.command()
@click.argument("simulation_id", metavar="ID")
@tenant_option
@reason_option
@as_option
@workspace_option
@json_option
def retire(
    simulation_id: str, tenant_id: str | None, reason: str | None, name: str | None, directory: Path, as_json: bool
) -> None:
    """Stop a simulation for a tenant at once.

    This works also if the file of the simulation has changed or is gone.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ, name)
        tenant = choose_tenant(workspace, tenant_id)
        state = workspace.promotion.retire(simulation_id, tenant_id=tenant, who=who, reason=clean_reason(reason))
    _print_state(simulation_id, tenant, "RETIRED", state.digest, as_json=as_json)


_COLUMNS: Final = ("simulation_id", "version", "state", "impact", "risk", "access_action", "rollback")


def _print_state(
    simulation_id: str, tenant: str, state: str, digest: str, *, as_json: bool, more: dict[str, Any] | None = None
) -> None:
    if as_json:
        tree = {"simulation_id": simulation_id, "tenant_id": tenant, "state": state, "digest": digest}
        show_json({**tree, **(more or {})})
    else:
        click.echo(f"{simulation_id} is {state} for {display_name(tenant)} ({digest})")


def _note_inactive_steps(entry: "CatalogueEntry", entries: "Catalogue", flag: str) -> None:
    needed = {step.simulation_id: step.state for step in make_line(entry, entries).steps}
    needed |= {step.rollback: str(step.rollback_state) for step in make_line(entry, entries).steps if step.rollback}
    for name, state in needed.items():
        if state != "ACTIVE":
            obstacle = f"its steps need {name}, which is {state}, so it cannot run yet"
            click.echo(f"note: {obstacle}: remit catalogue promote {name}{flag}", err=True)


def _print_steps(entry: "CatalogueEntry", entries: "Catalogue") -> None:
    for number, step in enumerate(make_line(entry, entries).steps, start=1):
        click.echo(f"step {number}, {step.step}: {step.simulation_id}, {step.state} ({step.definition_digest})")
        if step.rollback is not None:
            click.echo(f"  rolled back by {step.rollback}, {step.rollback_state} ({step.rollback_digest})")


def _short(entry: "CatalogueEntry", entries: "Catalogue") -> dict[str, Any]:
    tree = make_line(entry, entries).tree()
    tree.pop("steps")
    digest = tree.pop("definition_digest")
    return {**tree, "digest": digest, **_steps(entry, entries)}


def _steps(entry: "CatalogueEntry", entries: "Catalogue") -> dict[str, Any]:
    """Return the steps of a composite simulation as a member of JSON output. Nothing for any other simulation."""
    steps = [step.tree() for step in make_line(entry, entries).steps]
    listed = [{"digest" if name == "definition_digest" else name: step[name] for name in step} for step in steps]
    return {"steps": listed} if listed else {}


def _rows(entry: "CatalogueEntry", entries: "Catalogue") -> Iterator[tuple[Any, ...]]:
    """Yield the row of a simulation, and one row for each step of a composite one."""
    short = _short(entry, entries)
    yield tuple(short[name] or "" for name in _COLUMNS)
    for step in short.get("steps", ()):
        yield f"  {step['step']}: {step['simulation_id']}", "", step["state"], "", "", "", step["rollback"] or ""


def _to_tree(state: "PromotedState") -> dict[str, str]:
    tree = make_state_view(state).tree()
    digest = tree.pop("definition_digest")
    return {**tree, "digest": digest}
