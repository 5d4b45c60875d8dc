"""A project with an outside next to it, and plans against it: proposed, and signed by somebody who looked away.

Most hostile plans never get an envelope, for `approve` looks first. So each is tried twice: as a proposal, and under an
envelope that the protocol key signed blindly. Neither may touch anything.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from remit.authority.envelope import issue_envelope
from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.core.errors import RefusedError
from remit.core.ids import Clock, system_clock
from remit.crypto.keyring import load_signer
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

SECRET = b"the secret of somebody else\n"
NO_APPROVALS: dict[str, tuple[str, ...]] = {"protected": (), "executable": (), "content": (), "irreversible": ()}


def action(kind: str, target: str, action_id: str = "a001", **more: Any) -> dict[str, Any]:
    """One action of the kind that a test names: create, modify, delete, rename from, rename to."""
    match kind:
        case "create":
            typed = {"action_type": "FILE_CREATE", "operation": {"type": "write", "content": "mine\n"}}
        case "modify":
            operation = {"type": "text_replace", "pattern": "e", "replacement": "E"}
            typed = {"action_type": "FILE_MODIFY", "operation": operation}
        case "delete":
            typed = {"action_type": "FILE_DELETE", "operation": {"type": "delete"}}
        case "rename from":
            typed = {"action_type": "FILE_RENAME", "operation": {"type": "rename", "new_path": "sub/moved.txt"}}
        case _:
            typed = {"action_type": "FILE_RENAME", "operation": {"type": "rename", "new_path": target}}
            target = "sub/ok.txt"
    return {"action_id": action_id, "target": target, **typed, **more}


def plan_of(*actions: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"plan_id": "hostile", "action_plan": list(actions), **more}).encode()


@dataclass
class HostileProject:
    """`ws` is the project; `outside` and `ws-secret` are somebody else's."""

    folder: Path
    workspace: Workspace

    @classmethod
    def make(cls, folder: Path, clock: Clock = system_clock) -> "HostileProject":
        folder = folder.resolve()
        for name in ("ws/sub", "ws/protected", "outside", "ws-secret"):
            (folder / name).mkdir(parents=True)
        (folder / "ws/sub/ok.txt").write_bytes(b"some text here\n")
        (folder / "ws/protected/.env").write_bytes(b"NAME=value\n")
        for place in ("outside", "ws-secret"):
            (folder / place / "secret.txt").write_bytes(SECRET)
        environ = {"REMIT_STATE": str(folder / "state"), "PATH": os.environ["PATH"]}
        initialise(folder / "ws", environ, clock)[0].close()
        return cls(folder, Workspace.open(folder / "ws", environ=environ, clock=clock))

    @property
    def root(self) -> Path:
        return self.folder / "ws"

    def world(self) -> dict[str, tuple[int, str]]:
        """Every file and folder of the project and of its neighbours, but for what Remit itself writes."""
        found = {}
        for top in ("ws", "outside", "ws-secret"):
            for folder, folders, files in os.walk(self.folder / top):
                if folder == str(self.root):
                    folders[:] = [name for name in folders if name not in {"agent_outputs", "agent_logs"}]
                for name in (*folders, *files):
                    path = os.path.join(folder, name)
                    found[os.path.relpath(path, self.folder)] = _fingerprint(path)
        return found

    def blindly(self, plan: bytes, inputs: Iterable[ApprovedInput] = (), **approvals: tuple[str, ...]) -> Envelope:
        """An envelope signed by a protocol layer that looked at nothing."""
        state, config = self.workspace.state, self.workspace.config
        return issue_envelope(
            load_signer(state.keys, "protocol"),
            Plan.parse(plan),
            config.digest(),
            tuple(inputs),
            Approvals(**{**NO_APPROVALS, **approvals}),
            self.workspace.clock(),
            timedelta(hours=1),
        )

    def inputs(self, *paths: str) -> list[ApprovedInput]:
        """The files as they are now, the way an approval lists them."""
        return [
            ApprovedInput(
                path=path,
                digest=f"sha256:{hashlib.sha256((self.root / path).read_bytes()).hexdigest()}",
                mode=f"{(self.root / path).stat().st_mode & 0o777:04o}",
            )
            for path in paths
        ]

    def approved(self, plan: bytes, **approvals: Any) -> PlanOutcome:
        """Applied as it should be."""
        outcome = self.workspace.apply(self.workspace.approve(plan, **approvals).canonical())
        assert isinstance(outcome, PlanOutcome), outcome
        return outcome

    def codes(self, outcome: PlanOutcome | PlanRefusal) -> set[int]:
        return {error.error_code for error in outcome.errors}

    def assert_out_of_reach(self, plan: bytes, *, inputs: Iterable[ApprovedInput] = ()) -> None:
        """Not proposed, not applied, and nothing anywhere is another than before."""
        before = self.world()
        proposed = _refused_as_a_proposal(self.workspace, plan)
        assert proposed, "the plan was approved"
        assert self.world() == before
        try:
            envelope = self.blindly(plan, inputs)
        except RefusedError:
            return  # such a plan cannot even be written down
        outcome = self.workspace.apply(envelope.canonical())
        assert isinstance(outcome, PlanRefusal) or outcome.status.status == "FAILED", outcome
        assert max(self.codes(outcome)) < 5000, outcome  # refused, not stumbled over
        assert self.world() == before


def _refused_as_a_proposal(workspace: Workspace, plan: bytes) -> bool:
    try:
        workspace.approve(plan)
    except RefusedError:
        return True
    return False


def _fingerprint(path: str) -> tuple[int, str]:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return found.st_mode, os.readlink(path)
    if stat.S_ISREG(found.st_mode) and found.st_size < 1 << 30:
        return found.st_mode, hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found.st_mode, str(found.st_size if stat.S_ISREG(found.st_mode) else "")
