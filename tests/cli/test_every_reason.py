"""An example of every reason: what a user sees has the code, the cause and the next step, and no secret.

Most examples are errors of commands. An error that no command can force is raised by the function that raises it, and
printed by the renderer of the command line.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import MagicMock
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from remit import acting, governed
from remit.browser.actions import require_same_page
from remit.browser.chromium.documents import Documents
from remit.browser.chromium.element_refs import References
from remit.browser.chromium.types import Element
from remit.browser.typed_secrets import TypedSecrets
from remit.cli.goals.ask import ask
from remit.contracts.config.oidc import Oidc
from remit.contracts.plans.error_codes import plan_error
from remit.core.errors import MEANING, NEXT_STEPS, EnvironmentFailureError, Reason, RefusedError
from remit.goals import simulation_executor
from remit.goals.replay import RecreatedDecision, replay_decision
from remit.governed_functions import NotDoneError
from remit.services.base.server_lock import LOCK_FILE
from remit.web.login.oidc import Provider
from tests.cli.error_workspace import (
    FAILING_ACTIONS,
    PASSWORD,
    SECRET,
    ErrorWorkspace,
    ShownError,
    is_sentence,
    names_an_action,
    run_pipeline,
    run_sql,
    show_raised,
)
from tests.goals.goal_office import ARCHIVE, SIMULATIONS, TENANT
from tests.plans.project import Project, at_phase, create, plan_of, replace
from tests.support.small_disks import require_root, small_disk
from tests.support.web_server import WebSite
from tests.web.identity_provider import CLIENT, providing

SERVER_URL: Final = f"postgresql://remit:{SECRET}@127.0.0.1:1/nowhere"
FOR_MIA: Final = ("--user", "mia", "--tenant", TENANT)
RULE: Final = {"type": "file_exists", "path": "missing.txt"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ErrorWorkspace]:
    made = ErrorWorkspace(tmp_path_factory.mktemp("errors"))
    yield made
    made.close()


# --- hostile or wrong data -------------------------------------------------------------------------------------------


def too_large(place: ErrorWorkspace) -> ShownError:
    with (place.root / "huge.json").open("wb") as file:
        file.truncate(100 << 20)
    return place.command("preview", "huge.json")


def overwritten_input(place: ErrorWorkspace) -> ShownError:
    plan = place.write_plan("input", create("a", "input.txt"))
    return place.command("preview", plan, "--digest-file", plan)


def not_authenticated(place: ErrorWorkspace) -> ShownError:
    folder = place.folder / "site"
    folder.mkdir()
    site = WebSite(folder)
    try:
        answer = site.get("/v1/me")
    finally:
        site.close()
    assert answer.status == 401
    code, cause, next_step = (answer.tree[name] for name in ("code", "what", "next_step"))
    return ShownError(Reason(code), code, cause, next_step, answer.body.decode())


def forged_id_token(_: ErrorWorkspace) -> ShownError:
    with providing(generate_private_key(65_537, 2_048)) as provider:
        provider.sign = "changed"
        client = Provider(_oidc(provider.issuer), {}, "http://127.0.0.1/x")
        begun = client.begin("/")
        query = dict(parse_qsl(provider.agree(begun.url)))
        with pytest.raises(RefusedError) as caught:
            client.finish(query, begun.browser_secret)
    return show_raised(caught.value)


def unreachable_provider(_: ErrorWorkspace) -> ShownError:
    with pytest.raises(EnvironmentFailureError) as caught:
        Provider(_oidc("http://127.0.0.1:1"), {}, "http://127.0.0.1/x").begin("/")
    return show_raised(caught.value)


def _oidc(issuer: str) -> Oidc:
    return Oidc.from_tree({"issuer": issuer, "client_id": CLIENT, "roles": [{"value": "staff", "role": "viewer"}]})


def wrong_signature(place: ErrorWorkspace) -> ShownError:
    token = place.token("plan.propose")
    return place.command("propose", place.write_plan("p", create("a", "p.txt")), REMIT_TOKEN=token[:-8] + "A" * 8)


def unknown_key(place: ErrorWorkspace) -> ShownError:
    envelope = place.approve("foreign", create("a", "foreign.txt")).tree()
    return place.command("apply", place.write("foreign.envelope", json.dumps({**envelope, "key_id": "A" * 43})))


def retired_key(place: ErrorWorkspace) -> ShownError:
    state = place.copy_state("with-retired-key", "earlier")
    with place.opened(state, timedelta(days=39)) as workspace:
        workspace.rotate_key("protocol")
    envelope = place.write("late.envelope", place.approve("late", create("a", "late.txt")).canonical())
    return place.command("apply", envelope, REMIT_STATE=str(state))


def changed_plan(place: ErrorWorkspace) -> ShownError:
    envelope = place.approve("bound", create("a", "bound.txt", "approved text")).canonical()
    return place.command("apply", place.write("bound.envelope", envelope.replace(b"approved text", b"another text")))


def approved_in_the_future(place: ErrorWorkspace) -> ShownError:
    envelope = place.approve("ahead", create("a", "ahead.txt")).canonical()
    with place.opened(place.copy_state("with-slow-clock", "earlier"), timedelta(days=1)) as workspace:
        refusals: list[RefusedError] = []
        workspace.apply(envelope, on_refusal=refusals.append)
    return show_raised(refusals[0], "apply")


def cancelled_approval(place: ErrorWorkspace) -> ShownError:
    envelope = place.approve("void", create("a", "void.txt"))
    assert place.run("cancel", envelope.envelope_id).code == 0
    return place.command("apply", place.write("void.envelope", envelope.canonical()))


def used_key(place: ErrorWorkspace) -> ShownError:
    assert place.run("propose", place.write_plan("first", create("a", "1.txt")), "--key", "nightly").code == 0
    return place.command("propose", place.write_plan("second", create("a", "2.txt")), "--key", "nightly")


def second_server(place: ErrorWorkspace) -> ShownError:
    with open(place.office.workspace.state.path / LOCK_FILE, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return place.command("serve", "--port", "0")


def tampered_ledger(place: ErrorWorkspace) -> ShownError:
    place.run_plan("kept", create("a", "kept.txt"))
    state = place.copy_state("with-tampered-ledger")
    change_database(
        state,
        "DROP TRIGGER ledger_entries_no_update",
        "UPDATE ledger_entries SET payload = replace(payload, 'SUCCESS', 'FAILURE')",
    )
    return place.command("rollback", "last", REMIT_STATE=str(state))


def change_database(state: Path, *statements: str) -> None:
    (path,) = state.rglob("ledger.sqlite3")
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


# --- plans, approvals and rollbacks ----------------------------------------------------------------------------------


def denied_proposal(place: ErrorWorkspace) -> ShownError:
    plan = place.write_plan("unwanted", create("a", "unwanted.txt"))
    proposal = place.run("propose", plan, "--json").document["proposal_id"]
    assert place.run("approvals", "deny", proposal, "--reason", PASSWORD).code == 0
    return place.command("apply", "--proposal", proposal)


def stopped_preview(place: ErrorWorkspace) -> ShownError:
    program = """
import os, signal
from remit import Workspace
Workspace.preview = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
"""
    return place.command("preview", place.write_plan("stopped", create("a", "stopped.txt")), program=program)


def without_backup(place: ErrorWorkspace, name: str, damage: Callable[[Path], object]) -> ShownError:
    place.write(f"{name}.txt", "two\n")
    status = place.run_plan(name, replace("a", f"{name}.txt"))
    (backup,) = (place.root / status["folder"]).glob("backups/*.bak")
    damage(backup)
    return place.command("rollback", status["envelope_id"])


def damage_backup(backup: Path) -> None:
    backup.chmod(0o600)
    backup.write_text(PASSWORD)


def changed_since(place: ErrorWorkspace) -> ShownError:
    place.write("drifted.txt", "two\n")
    status = place.run_plan("drifted", replace("a", "drifted.txt"))
    place.write("drifted.txt", PASSWORD)
    return place.command("rollback", status["envelope_id"])


def failed_undo(place: ErrorWorkspace) -> ShownError:
    """Another process changes the first file, and then the check of the second one fails."""
    folder = place.folder / "stuck"
    folder.mkdir()
    project = Project(folder)
    for name in ("a.txt", "b.txt"):
        project.write(name)
    envelope = project.approve(plan_of(replace("a", "a.txt"), replace("b", "b.txt"))).canonical()
    spoil = at_phase("VERIFYING", lambda: project.write("a.txt", f"{PASSWORD}\n"))
    with pytest.raises(Exception, match=r".") as caught:
        project.workspace.apply(envelope, on_status=spoil)
    project.close()
    return show_raised(caught.value, "apply")


def undone_run(place: ErrorWorkspace) -> ShownError:
    status = place.run_plan("undone", create("a", "undone.txt"), rules=[RULE])
    assert status["status"] == "ROLLED_BACK"
    return place.command("rollback", status["envelope_id"])


# --- a browser, goals and functions ----------------------------------------------------------------------------------


def missing_element(_: ErrorWorkspace) -> ShownError:
    documents = Documents(MagicMock(), MagicMock(), MagicMock(), {}, References())
    with pytest.raises(RefusedError) as caught:
        asyncio.run(documents.find(Element(ref="e9")))
    return show_raised(caught.value)


def another_page(_: ErrorWorkspace) -> ShownError:
    with pytest.raises(RefusedError) as caught:
        require_same_page(f"https://shop.test/other?{PASSWORD}", "https://shop.test/", TypedSecrets())
    return show_raised(caught.value)


def failed_function(place: ErrorWorkspace, name: str, problem: Exception) -> ShownError:
    @governed(place.office.workspace, name, consent="policy", allow=lambda **_: True)
    def fail(value: int) -> int:
        raise problem

    with acting(place.token(f"call.{name}"), key=name), pytest.raises(Exception, match=r".") as caught:
        fail(1)
    return show_raised(caught.value)


def function_without_agent(place: ErrorWorkspace) -> ShownError:
    @governed(place.office.workspace, "misused", consent="policy", allow=lambda **_: True)
    def misused(value: int) -> int:
        return value

    with pytest.raises(Exception, match=r".") as caught:
        misused(1)
    return show_raised(caught.value)


def other_user(place: ErrorWorkspace) -> ShownError:
    token = place.token("goal.ask", user="mia", tenant=TENANT)
    return place.command("ask", "are you there", "--user", "leo", "--tenant", TENANT, REMIT_TOKEN=token)


def used_correlation(place: ErrorWorkspace) -> ShownError:
    token = place.token("goal.ask", user="mia", tenant=TENANT)
    goal = ("ask", "are you there", *FOR_MIA, "--correlation", "used")
    assert place.run(*goal).code == 0
    return place.command(*goal, REMIT_TOKEN=token)


def retired_simulation(place: ErrorWorkspace) -> ShownError:
    place.office.retire("copy-form")
    try:
        return place.ask("copy the form as mine", *FOR_MIA, "--correlation", "retired", "--confirm", "yes")
    finally:
        place.office.promote("copy-form")


def lost_confirmation(place: ErrorWorkspace) -> ShownError:
    """The final gate does not find the confirmation of the decision."""

    def without_answer(*arguments: Any) -> RecreatedDecision:
        found = replay_decision(*arguments)
        return found._replace(evidence=changed(found.evidence, answered=None))

    goal = ("--tenant", TENANT, "--continue", "unconfirmed", "--confirm", "yes")
    assert place.run("ask", "archive the note one", *FOR_MIA, "--correlation", "unconfirmed").code == 3
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation_executor, "replay_decision", without_answer)
        return place.ask(*goal, command=ask)


def without_rollback(place: ErrorWorkspace) -> ShownError:
    """Loading refuses such a catalogue; the gate refuses it too."""
    office = place.office
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("remit.goals.catalogue.catalogue.check_definitions", lambda *_: ())
        office.write_catalogue({**ARCHIVE, "rollback": None}, *SIMULATIONS[1:])
        office.promote("archive-note")
        try:
            return place.ask("archive the note two", *FOR_MIA, "--correlation", "no-way-back", command=ask)
        finally:
            office.write_catalogue(*SIMULATIONS)
            office.promote("archive-note")


def changed_document(place: ErrorWorkspace) -> ShownError:
    assert place.run("ask", "copy the form as x", *FOR_MIA, "--correlation", "x", "--confirm", "yes").code == 0
    state = place.copy_state("with-changed-documents")
    change_database(
        state,
        "DROP TRIGGER agent_documents_no_update",
        "UPDATE agent_documents SET body = replace(body, 'mia', 'eve')",
        "CREATE TRIGGER agent_documents_no_update BEFORE UPDATE ON agent_documents"
        " BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    return place.command("ask", "--undo", "x", "--tenant", TENANT, REMIT_STATE=str(state))


# --- the environment -------------------------------------------------------------------------------------------------


def no_workspace(place: ErrorWorkspace) -> ShownError:
    plan = place.write_plan("far-away", create("a", "a.txt"))
    return place.command("preview", str(place.root / plan), cwd=place.folder)


def open_keys(place: ErrorWorkspace) -> ShownError:
    state = place.copy_state("with-open-keys")
    for key in state.rglob("*.pem"):
        key.chmod(0o644)
    return place.command("run", place.write_plan("open", create("a", "open.txt")), "--yes", REMIT_STATE=str(state))


def unreachable_store(place: ErrorWorkspace) -> ShownError:
    folder = str(place.folder / "other")
    return place.command("init", folder, "--database-variable", "LEDGER_URL", LEDGER_URL=SERVER_URL)


def outdated_store(place: ErrorWorkspace) -> ShownError:
    state = place.copy_state("with-outdated-store")
    change_database(state, "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
    return place.command("runs", REMIT_STATE=str(state))


def full_disk(place: ErrorWorkspace) -> ShownError:
    require_root()
    plan = place.write_plan("full", create("a", "full.txt"))
    with small_disk(place.folder / "disk", "64k") as disk:
        with (disk / "ballast").open("wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize)
        return place.command("preview", plan, "--digest-file", str(disk / "digest"))


def unsupported_kernel(place: ErrorWorkspace) -> ShownError:
    program = """
from remit.sandbox import host, support
from remit.sandbox.kernel_probes import unsupported
host.require_confinement_here = lambda: support.require_confinement(unsupported("Linux", "6.1", "riscv64", "none"))
"""
    return place.command("preview", place.write_plan("loose", create("a", "loose.txt")), program=program)


def bug(place: ErrorWorkspace) -> ShownError:
    program = f"""
from remit import Workspace
def preview(*_, **__):
    raise LookupError("no preview with {PASSWORD}")
Workspace.preview = preview
"""
    return place.command("preview", place.write_plan("bug", create("a", "bug.txt")), program=program)


# --- the table -------------------------------------------------------------------------------------------------------

EXAMPLES: Final[dict[Reason, Callable[[ErrorWorkspace], ShownError]]] = {
    **{reason: partial(ErrorWorkspace.problem, reason=reason) for reason in FAILING_ACTIONS},
    Reason.MALFORMED: lambda place: place.command("preview", place.write("bad.json", json.dumps({"password": SECRET}))),
    Reason.TOO_LARGE: too_large,
    Reason.TOO_DEEP: lambda place: place.command("preview", place.write("deep.json", "[" * 100_000)),
    Reason.ARGUMENT_INVALID: overwritten_input,
    Reason.AUTHENTICATION_REQUIRED: not_authenticated,
    Reason.AUTHORITY_MALFORMED: lambda place: place.command(
        "propose", place.write_plan("asked", create("a", "asked.txt")), REMIT_TOKEN=f"eyJhbGciOi.{SECRET}.x"
    ),
    Reason.ID_TOKEN_INVALID: forged_id_token,
    Reason.SIGNATURE_INVALID: wrong_signature,
    Reason.KEY_UNKNOWN: unknown_key,
    Reason.KEY_RETIRED: retired_key,
    Reason.BINDING_MISMATCH: changed_plan,
    Reason.EXPIRED: lambda place: place.command("apply", place.write("old.envelope", place.old_envelope.canonical())),
    Reason.NOT_YET_VALID: approved_in_the_future,
    Reason.REVOKED: cancelled_approval,
    Reason.IRREVERSIBLE: lambda place: place.command(
        "run", place.write_plan("code", {"action_id": "a", **run_pipeline("code", reversible=False)}), "--yes"
    ),
    Reason.CAPABILITY_UNSUPPORTED: lambda place: place.preview({"action_id": "a", **run_pipeline("unknown")}),
    Reason.PATH_REFUSED: lambda place: place.preview(create("a", "../outside.txt")),
    Reason.IDEMPOTENCY_CONFLICT: used_key,
    Reason.IN_PROGRESS: second_server,
    Reason.TRANSITION_INVALID: lambda place: place.command("catalogue", "retire", "unheard", "--tenant", TENANT),
    Reason.EVIDENCE_INVALID: tampered_ledger,
    Reason.PERMISSION_DENIED: lambda place: place.command("approve", "notes.txt", REMIT_AGENT="bot"),
    Reason.PROTECTED: lambda place: place.command("run", place.write_plan("env", replace("a", ".env")), "--yes"),
    Reason.CONTENT_REFUSED: lambda place: place.command(
        "run", place.write_plan("secret", create("a", "secret.txt", PASSWORD)), "--yes"
    ),
    Reason.EXECUTABLE_REFUSED: lambda place: place.command(
        "run", place.write_plan("script", create("a", "run.sh", "#!/bin/sh\n")), "--yes"
    ),
    Reason.LIMIT_EXCEEDED: lambda place: place.preview(create("a", "slow.txt"), timeout_seconds=3_600),
    Reason.DEPENDENCY_INVALID: lambda place: place.preview(create("a", "a.txt", depends_on=["b"])),
    Reason.DATABASE_UNREACHABLE: lambda place: place.command(
        "preview", place.write_plan("far", {"action_id": "a", **run_sql("server", "SELECT 1")}), SHOP_URL=SERVER_URL
    ),
    Reason.RULE_FAILED: lambda place: place.outcome(place.write_plan("rule", create("a", "rule.txt"), rules=[RULE])),
    Reason.CANCELLED: stopped_preview,
    Reason.CAPABILITY_MISSING: lambda place: place.command(
        "propose", place.write_plan("mine", create("a", "mine.txt")), REMIT_TOKEN=place.token("plan.undo")
    ),
    Reason.CONSTRAINT_VIOLATED: other_user,
    Reason.APPROVAL_PENDING: lambda place: place.command("run", place.write_plan("alone", create("a", "alone.txt"))),
    Reason.APPROVAL_DENIED: denied_proposal,
    Reason.APPROVAL_TIMEOUT: lambda place: place.command("apply", "--proposal", place.old_proposal),
    Reason.ELEMENT_MISSING: missing_element,
    Reason.PAGE_CHANGED: another_page,
    Reason.FATE_UNKNOWN: lambda place: failed_function(place, "unknown", TimeoutError(PASSWORD)),
    Reason.GOAL_CONFLICT: used_correlation,
    Reason.SIMULATION_UNKNOWN: lambda place: place.command("catalogue", "show", "unheard", "--tenant", TENANT),
    Reason.SIMULATION_INACTIVE: retired_simulation,
    Reason.CONFIRMATION_MISSING: lost_confirmation,
    Reason.ACCESS_DENIED: lambda place: place.ask(
        "archive the note one", "--user", "eve", "--tenant", TENANT, "--correlation", "denied", "--confirm", "yes"
    ),
    Reason.ACCESS_NEEDS_APPROVAL: lambda place: place.ask(
        "copy the form as leos", "--user", "leo", "--tenant", TENANT, "--correlation", "leos", "--confirm", "yes"
    ),
    Reason.ROLLBACK_MISSING: without_rollback,
    Reason.REPLAY_FAILED: changed_document,
    Reason.BACKUP_DAMAGED: lambda place: without_backup(place, "damaged", damage_backup),
    Reason.BACKUP_MISSING: lambda place: without_backup(place, "lost", Path.unlink),
    Reason.DRIFTED: changed_since,
    Reason.ROLLBACK_EXPIRED: lambda place: place.command("rollback", place.old_run),
    Reason.ROLLBACK_FAILED: failed_undo,
    Reason.ROLLBACK_IMPOSSIBLE: undone_run,
    Reason.MISUSE: function_without_agent,
    Reason.CONFIG_INVALID: lambda place: place.preview({"action_id": "a", **run_sql("server", "SELECT 1")}),
    Reason.STATE_UNSAFE: open_keys,
    Reason.STATE_MISSING: no_workspace,
    Reason.STORE_UNAVAILABLE: unreachable_store,
    Reason.STORE_OUTDATED: outdated_store,
    Reason.IDENTITY_PROVIDER_UNAVAILABLE: unreachable_provider,
    Reason.DISK_FULL: full_disk,
    Reason.SANDBOX_UNAVAILABLE: unsupported_kernel,
    Reason.EFFECT_FAILED: lambda place: failed_function(place, "failed", NotDoneError(PASSWORD)),
    Reason.INTERNAL: bug,
}


# --- what is looked at ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", EXAMPLES)
def test_an_error_shows_its_code_its_cause_and_the_next_step(place: ErrorWorkspace, reason: Reason) -> None:
    shown = EXAMPLES[reason](place)
    assert shown.reason is reason, shown
    assert len(shown.cause.split()) > 2, shown
    assert MEANING[reason] not in shown.cause, "it says what is wrong here, and not only what the code means"
    assert is_sentence(shown.next_step), shown
    assert names_an_action(shown.next_step), shown
    for secret in (SECRET, "eyJ", "PRIVATE KEY"):
        assert secret not in shown.output, shown


def test_every_reason_has_an_example() -> None:
    assert set(EXAMPLES) == set(Reason)


def test_an_error_without_a_next_step_of_its_own_shows_that_of_its_reason(subtests: pytest.Subtests) -> None:
    for reason in Reason:
        with subtests.test(reason.value):
            shown = show_raised(RefusedError(reason, "an example of this"), command="preview")
            assert shown.next_step == NEXT_STEPS[reason]
            assert is_sentence(shown.next_step), shown.next_step
            assert names_an_action(shown.next_step), shown.next_step
            number = plan_error(reason)
            assert shown.code == f"{number.code} {number.kind}"
