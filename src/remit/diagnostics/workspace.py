"""Checks of the settings, keys and store of a workspace. They inspect private key files, and load no private key."""

import itertools
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import Clock
from remit.crypto.keyring import load_keyring, private_key_problems
from remit.crypto.rsa_key_files import policy_key_file
from remit.crypto.signing import ROLES, Keyring, Role
from remit.diagnostics.check import Check, Topic
from remit.diagnostics.disk import list_some
from remit.execution.protected_paths import OWN_FOLDERS
from remit.fs.paths import require_bases
from remit.ledger.clock import (
    ACCEPT,
    ACCEPT_ADVICE,
    BEHIND_IS_FINE,
    SET_CLOCK,
    describe_behind,
    is_unanswered_jump,
    render_span,
)
from remit.ledger.clock_acceptance import ChainClock, chain_clocks
from remit.ledger.heads import Anchors
from remit.ledger.presence import anchored_heads, lost_anchored, require_entries_table
from remit.ledger.verify.triggers import missing_guards
from remit.store.connection import Connection, Store
from remit.store.migrations_runner import require_current, require_no_foreign_objects, shipped_migrations
from remit.store.schema_check import schema_changes

BASES: Final = Topic("base directories", "tasks that touch files")
SANDBOX: Final = Topic("sandbox", "confining effects")
REPORTS: Final = Topic("reports", "keeping copies of your files private")
KEY_FILES: Final = Topic("key files", "keeping private keys private")
KEYRING: Final = Topic("keyring", "signing and verifying")
STORE: Final = Topic("store", "the ledger")
TABLES: Final = Topic("tables", "the ledger")
ANCHORS: Final = Topic("anchors", "a ledger that cannot be cut short")
GUARDS: Final = Topic("guards", "an append-only ledger")
LEDGER_CLOCK: Final = Topic("clock and ledger", "times that do not run backwards")
SERVER: Final = Topic("PostgreSQL server", "the ledger")
SERVER_SETTINGS: Final = Topic("PostgreSQL settings", "entries that survive a power cut")
SERVER_CLOCK: Final = Topic("PostgreSQL clock", "times that agree between hosts")

OLDEST_TESTED_SERVER: Final = 15
CLOCKS_DIFFER: Final = 2.0
CLOCKS_DISAGREE: Final = 60.0
MAX_TENANTS: Final = 200
"""The number of chains in which the newest entry is searched. A limit, so that `remit doctor` stays quick."""
MAX_REPORT_FILES: Final = 20_000
"""The number of report and backup files whose permissions are checked. A limit, so that `remit doctor` stays quick."""

_SETTINGS: Final = """SELECT name, reset_val FROM pg_settings
  WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'server_version', 'server_version_num')"""


def check_bases(bases: Sequence[str], state: Path) -> Check:
    """Check that each base directory exists, is not a link, and is separate from the state directory."""
    for number, base in enumerate(bases):
        try:
            require_bases([base], state)
        except RefusedError as problem:
            found = f"{problem.what} (remit.yaml, $.base_directories[{number}]: {problem.where})"
            return BASES.fail(found, problem.next_step)
    return BASES.ok(list_some(list(bases)) if bases else "none, so no task may touch a file")


def check_sandbox(setting: str) -> Check:
    if setting == "unsafe-none":
        return SANDBOX.warn(
            "sandbox: unsafe-none in remit.yaml: effects run with all rights of this user, to files and to the network;"
            " every result shows this",
            "If the machine can confine effects (see above), write: sandbox: required",
        )
    return SANDBOX.ok("required: an effect runs only if it can be confined")


def check_reports(folder: Path) -> Check:
    """Check that other users cannot read the reports, backups and logs. Remit creates each of them with mode 600."""
    open_files = list(_open_report_files(folder))
    if open_files:
        places = sorted({shlex.quote(str(folder / path.relative_to(folder).parts[0])) for path in open_files})
        return REPORTS.warn(
            f"other users can read parts of your files here: {list_some([str(path) for path in open_files])}",
            f"chmod -R go-rwx {' '.join(places)}",
        )
    return REPORTS.ok("other users can read no report, backup or log")


def _open_report_files(folder: Path) -> Iterator[Path]:
    """Yield the files that the group or others can read, by their modes and those of the folders of Remit."""
    walks = (os.walk(folder / name) for name in sorted(OWN_FOLDERS) if not (folder / name).is_symlink())
    seen = 0
    for place, folders, files in itertools.chain.from_iterable(walks):
        if not os.stat(place).st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            folders.clear()  # what is below is closed too
            continue
        for name in files:
            seen += 1
            if seen > MAX_REPORT_FILES:
                return
            found = os.lstat(os.path.join(place, name))
            is_open = stat.S_ISREG(found.st_mode) and found.st_mode & (stat.S_IRGRP | stat.S_IROTH)
            if is_open and name != ".gitignore":
                yield Path(place, name)


def check_key_files(folder: Path) -> Check:
    where = shlex.quote(str(folder))
    try:
        os.lstat(folder)
    except FileNotFoundError:
        return KEY_FILES.fail(
            f"{folder} is missing", "Restore it from a backup. A ledger cannot continue with new keys."
        )
    problems = private_key_problems(folder)
    if problems:
        advice = (
            f"chown -R {os.geteuid()} {where} && chmod -R go-rwx {where}."
            " If other users could read a key: remit keys rotate ROLE --revoke"
        )
        return KEY_FILES.fail(list_some(problems), advice)
    return KEY_FILES.ok(f"{sum(1 for _ in folder.glob('*/*.pem'))} private keys, readable only by their owner")


def check_keyring(folder: Path) -> Check:
    """Check that each role has one active key with its private key file, and that there is no unknown private key."""
    ring = load_keyring(folder)
    wanted = {role: _private_file(folder, role, ring) for role in ROLES}
    unclear = [role for role, path in wanted.items() if path is None]
    if unclear:
        return KEYRING.fail(
            f"no single active key for: {', '.join(unclear)}", "Run `remit init` to create missing keys."
        )
    gone = [role for role, path in wanted.items() if path is not None and not os.path.lexists(path)]
    if gone:
        advice = f"Restore the file from a backup, or create a new key: remit keys rotate {gone[0]}"
        return KEYRING.fail(f"the private key is missing for: {', '.join(gone)}", advice)
    policy = policy_key_file(folder)
    if policy is not None and not os.path.lexists(policy):
        advice = "Restore the file from a backup, or create a new key: remit token rotate-key"
        return KEYRING.fail("the private key is missing for: policy, which signs tokens", advice)
    known = {*wanted.values(), policy}
    strangers = sorted(str(path) for path in folder.glob("*/*.pem") if path not in known)
    if strangers:
        advice = f"An interrupted rotation or another program created it. Remove it: rm {shlex.quote(strangers[0])}"
        return KEYRING.warn(f"private keys that no active key needs: {list_some(strangers)}", advice)
    return KEYRING.ok(f"an active key for each of {', '.join([*ROLES, *(['policy'] if policy else [])])}")


def check_store(store: Store, clock: Clock, anchors: Anchors) -> list[Check]:
    """Check that the store opens, and that its tables, guards and clock are as Remit needs them.

    The store must also hold the entries that the anchors prove. Otherwise another database has replaced it.
    """
    heads = anchored_heads(anchors)
    with store.reading() as connection:
        tables = TABLES.run(lambda: check_tables(connection, anchors))
        found = [check_journal(connection, store.describe()), tables]
        if connection.dialect == "postgresql":
            found += check_server(connection, clock)
        if tables.status == "ok":
            found.append(ANCHORS.run(lambda: check_anchors(lost_anchored(connection, heads))))
            found.append(GUARDS.run(lambda: check_guards(list(missing_guards(connection)))))
            found.append(LEDGER_CLOCK.run(lambda: check_ledger_clock(_chains(connection, clock()), clock())))
        return found


def check_journal(connection: Connection, described: str) -> Check:
    if connection.dialect != "sqlite":
        return STORE.ok(described)
    row = connection.one("PRAGMA journal_mode")
    mode = str(row[0]) if row else "unknown"
    if mode != "wal":
        advice = "Stop every Remit process, then set it with the sqlite3 program: PRAGMA journal_mode=WAL"
        return STORE.warn(f"{described}: journal mode {mode}, so readers and writers block each other", advice)
    return STORE.ok(f"{described}, WAL")


def check_tables(connection: Connection, anchors: Anchors) -> Check:
    require_entries_table(connection, anchors)
    require_current(connection)
    require_no_foreign_objects(connection)
    changes = list(schema_changes(connection))
    if changes:
        advice = (
            "Another program changed the tables. Keep a copy of them, and look for other changes: remit ledger verify"
        )
        return TABLES.fail(list_some(changes), advice)
    return TABLES.ok(f"up to date, migration {len(shipped_migrations(connection.dialect)):04d}")


def check_anchors(lost: list[LedgerHead]) -> Check:
    if lost:
        head = lost[0]
        return ANCHORS.fail(
            f"entry {head.seq} of tenant {head.tenant_id}, whose signed head is stored, is not in the database. The"
            " database was cut short, rewritten, or replaced by another one",
            "Keep the database as it is, and look for other changes: remit ledger verify",
        )
    return ANCHORS.ok("the database holds every entry that the anchors prove")


def check_guards(missing: list[tuple[str, str]]) -> Check:
    if missing:
        lost = list_some([f"table {table} lost its guard {guard}" for table, guard in missing])
        return GUARDS.fail(
            lost, "A person or a program changed the tables. Look for other changes: remit ledger verify"
        )
    return GUARDS.ok("every table that must not change is guarded")


def check_ledger_clock(chains: Sequence[ChainClock], now: datetime) -> Check:
    """Check that the clock is not behind the newest entry, and that a person has accepted the last large jump ahead."""
    if not chains:
        return LEDGER_CLOCK.ok("no entry yet")
    ahead = max(chains, key=lambda chain: chain.newest)
    if ahead.behind > BEHIND_IS_FINE:
        found = (
            f"{describe_behind(ahead.newest, now)}; until the clock reaches that time, valid leases and tokens are"
            " refused as expired"
        )
        return LEDGER_CLOCK.fail(found, ACCEPT_ADVICE)
    jumped = next((chain.last for chain in chains if is_unanswered_jump(chain.last)), None)
    if jumped is not None:
        span = render_span(timedelta(seconds=jumped.payload["seconds"]))
        found = f"the clock was set {span} ahead, from {jumped.payload['expected_at'][:19]}Z"
        return LEDGER_CLOCK.warn(
            found, f"If the clock is right now, a person accepts it: {ACCEPT}. If not, set it: {SET_CLOCK}."
        )
    # Agents may run `remit doctor`, so it shows neither the time nor the number of an entry. `remit clock show` does.
    return LEDGER_CLOCK.ok("the clock is not behind the newest entry")


def _chains(connection: Connection, now: datetime) -> list[ChainClock]:
    """Return the clocks of the first `MAX_TENANTS` chains only."""
    return list(itertools.islice(chain_clocks(connection, now), MAX_TENANTS))


def check_server(connection: Connection, clock: Clock) -> list[Check]:
    settings = {str(name): str(value) for name, value in connection.rows(_SETTINGS)}
    before = clock()
    row = connection.one("SELECT clock_timestamp()")
    halfway = before + (clock() - before) / 2
    if row is None:
        raise EnvironmentFailureError(Reason.STORE_UNAVAILABLE, "the server did not report its time")
    difference = (row[0].astimezone(UTC) - halfway).total_seconds()
    return [
        SERVER.run(lambda: check_server_version(settings)),
        SERVER_SETTINGS.run(lambda: check_server_settings(settings)),
        SERVER_CLOCK.run(lambda: check_server_clock(difference)),
    ]


def check_server_version(settings: Mapping[str, str]) -> Check:
    shown = settings["server_version"]
    if int(settings["server_version_num"]) // 10_000 < OLDEST_TESTED_SERVER:
        advice = f"Update the server: Remit is tested on PostgreSQL {OLDEST_TESTED_SERVER} and newer."
        return SERVER.warn(f"{shown}, older than the versions that Remit is tested with", advice)
    return SERVER.ok(shown)


def check_server_settings(settings: Mapping[str, str]) -> Check:
    """Check the server's default settings, without those of this session."""
    if settings["fsync"] != "on":
        return SERVER_SETTINGS.fail(
            "fsync is off: a power cut loses entries that were acknowledged",
            "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();",
        )
    if settings["full_page_writes"] != "on":
        return SERVER_SETTINGS.warn(
            "full_page_writes is off, which is safe only on a file system that never tears a page, such as ZFS",
            "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();",
        )
    if settings["synchronous_commit"] == "off":
        return SERVER_SETTINGS.warn(
            "synchronous_commit is off. Remit sets it to on for itself; other programs lose data at a crash",
            "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();",
        )
    return SERVER_SETTINGS.ok(f"fsync, full_page_writes, synchronous_commit {settings['synchronous_commit']}")


def check_server_clock(seconds: float) -> Check:
    shown = f"the server's clock is {abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"
    if abs(seconds) > CLOCKS_DISAGREE:
        return SERVER_CLOCK.fail(shown, f"Synchronise both machines: {SET_CLOCK}")
    if abs(seconds) > CLOCKS_DIFFER:
        return SERVER_CLOCK.warn(shown, f"Synchronise both machines: {SET_CLOCK}")
    return SERVER_CLOCK.ok(f"within {CLOCKS_DIFFER:.0f} s of this machine's clock")


def _private_file(folder: Path, role: Role, ring: Keyring) -> Path | None:
    active = ring.active(role)
    return folder / role / f"{active.key_id}.pem" if active else None
