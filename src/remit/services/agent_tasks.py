"""Tasks that an agent requests with its token. Restricts protected files, and removes digests of content from results.

A copy of a protected file under another name can be read by each caller that may read that name. So a task on a
protected file needs a lease that a person issued for exactly this manifest. A lease from a program is enough for every
other file.
"""

import os
from collections.abc import Iterator
from typing import Final

from remit.authority.results import sign_success
from remit.contracts.tasks.result import CopyOutput, CopyUndo, ExecutionResult, Nothing
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.execution.protected_paths import is_forbidden, protecting_group
from remit.fs.paths import plain_spelling
from remit.ledger.proof import require_covered
from remit.ledger.verify.browser_tables import read_payload
from remit.services.base.run_list import project_root
from remit.tasks.policy import close_inputs, locate_paths
from remit.tasks.snapshots import open_snapshot
from remit.workspace.workspace import Workspace

DIGEST_WITHHELD: Final = (
    "The recorded result holds a digest of the copied file. An agent that may not read the file gets the result"
    " without it, signed for it by the same executor."
)
_LEASES: Final = """SELECT seq FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = 'lease.issued' ORDER BY seq DESC LIMIT 100"""


def require_not_protected(workspace: Workspace, manifest: TaskManifest, lease: bytes) -> None:
    """Refuse a task on a protected file, unless a person issued this lease for exactly this manifest.

    It does not check whether the lease is valid. The execution engine does that next.
    """
    protected = protected_paths(workspace, manifest)
    if not protected or _is_leased_by_person(workspace, manifest, lease):
        return
    raise RefusedError(
        Reason.PROTECTED,
        "this file is protected, and no person issued a lease that names it",
        where=protected[0],
        next_step="Ask a person to issue the lease for this task: remit task lease, or the console.",
    )


def protected_paths(workspace: Workspace, manifest: TaskManifest) -> list[str]:
    """Return the protected files that a task names, as absolute paths."""
    return [path for path in _list_task_paths(workspace, manifest) if _is_protected(workspace, path)]


def result_for_agent(workspace: Workspace, result: ExecutionResult) -> ExecutionResult:
    """Return the result without a digest of content.

    If a file has few possible contents, its digest shows which one it has.
    """
    output = result.output
    if not isinstance(output, CopyOutput) or not isinstance(output.undo_metadata, CopyUndo):
        return result
    redacted = output.model_copy(update={"undo_metadata": Nothing()})
    return sign_success(
        workspace.tasks.operation().signer(), result.executor_id, result.task_id, result.capability_id, redacted
    )


def has_content_digest(result: ExecutionResult | None) -> bool:
    output = result.output if result is not None else None
    return isinstance(output, CopyOutput) and isinstance(output.undo_metadata, CopyUndo)


def _list_task_paths(workspace: Workspace, manifest: TaskManifest) -> Iterator[str]:
    """List every file that the task reads, removes or creates, as absolute paths.

    For the restore of a deleted file, that file is listed too.
    """
    capability = workspace.tasks.registry.get(manifest.capability_id)
    if capability is None:  # the execution engine refuses it
        return
    try:
        yield from (
            place.path for place in locate_paths(manifest, capability, workspace.tasks.operation().rules.bases).values()
        )
    except RemitError:  # as above
        return
    if capability.restores is not None:
        try:
            reference = close_inputs(manifest, capability)[capability.restores]
            descriptor, meta = open_snapshot(workspace.state.snapshots, reference)
        except RemitError:
            return
        os.close(descriptor)
        yield str(meta["path"])


def _is_protected(workspace: Workspace, path: str) -> bool:
    """Return whether a path is protected, by its name below the root or below a directory that tasks may work in.

    A path that no plan may touch at all, such as an access policy, is protected too.
    """
    folders = (project_root(workspace), *workspace.tasks.operation().rules.bases())
    above = [f"{folder.rstrip('/')}/" for folder in folders]
    below = [path.removeprefix(folder) for folder in above if path.startswith(folder)]
    names = below or [path.rpartition("/")[2]]
    config = workspace.config
    return any(protecting_group(name, config) or is_forbidden(name, config) for name in map(plain_spelling, names))


def _is_leased_by_person(workspace: Workspace, manifest: TaskManifest, lease: bytes) -> bool:
    """Return whether a signed ledger entry says that a person issued this lease for this manifest."""
    try:
        token = LeaseToken.parse(lease, source="lease")
    except RemitError:
        return False
    wanted = (token.lease_id, manifest.digest())
    with workspace.store.reading() as connection:
        for (seq,) in connection.rows(_LEASES, (DEFAULT_TENANT, manifest.task_id)):
            entry = require_covered(connection, lambda: workspace.keyring, DEFAULT_TENANT, int(seq))
            payload = read_payload(entry.payload)
            if entry.kind == "lease.issued" and (payload.get("lease_id"), payload.get("manifest_digest")) == wanted:
                return bool(entry.actor) and not str(entry.actor).startswith("agent:")
    return False
