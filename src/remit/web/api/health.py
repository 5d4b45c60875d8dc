"""How the server is: alive (/healthz), and fit for work (/readyz). Public, so neither names a path or a value."""

import time
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from remit.contracts.base import Contract, Many, ShortText
from remit.diagnostics import disk
from remit.diagnostics import workspace as checks
from remit.diagnostics.check import Check, Topic
from remit.sandbox.kernel_probes import probe_kernel
from remit.web.config.reload import SETTINGS, SettingsWatcher
from remit.web.http.openapi import operation
from remit.web.http.request import json_response
from remit.workspace.workspace import Workspace

KERNEL_SECONDS: Final = 60.0
"""What the kernel offers is tried in a process of its own; it does not change from one moment to the next."""
CONFINEMENT: Final = Topic("sandbox", "effects that stay where they belong")


class Alive(Contract):
    status: ShortText = "alive"


class Finding(Contract):
    """One thing that is looked at. What exactly is wrong with it, `remit doctor` says on the machine itself."""

    name: ShortText
    ok: bool


class Readiness(Contract):
    ready: bool
    checks: Many[Finding]
    next_step: ShortText = ""


def health_router() -> APIRouter:
    router = APIRouter()
    kernel = _Kernel()

    @router.get("/healthz", **operation("alive", "Whether the server answers", answers={200: Alive}, public=True))
    async def alive() -> Response:  # takes no thread: it must answer when all of them are taken
        return json_response(Alive())

    @router.get(
        "/readyz",
        **operation(
            "ready",
            "Whether it can do its work: settings, store, tables, room, keys, sandbox",
            answers={200: Readiness, 503: Readiness},
            public=True,
        ),
    )
    def ready(request: Request) -> Response:
        found = check_readiness(request.app.state.services.workspace, request.app.state.settings_read, kernel)
        return json_response(found, 200 if found.ready else 503)

    return router


def check_readiness(workspace: Workspace, settings: SettingsWatcher, kernel: "_Kernel") -> Readiness:
    """All that has to be in order, each found by the check that `remit doctor` makes."""
    found = [
        SETTINGS.run(settings.check),
        checks.KEY_FILES.run(lambda: checks.check_key_files(workspace.state.keys)),
        checks.KEYRING.run(lambda: checks.check_keyring(workspace.state.keys)),
        *_store(workspace),
        disk.SPACE.run(lambda: disk.check_space(*disk.read_space(workspace.state.path))),
        CONFINEMENT.run(lambda: kernel.check(workspace.initial_config.sandbox)),
    ]
    ready = all(check.status != "fail" for check in found)
    return Readiness(
        ready=ready,
        checks=tuple(Finding(name=check.name, ok=check.status != "fail") for check in found),
        next_step="" if ready else "Run `remit doctor` on the machine: it says what is wrong, and what to do.",
    )


def _store(workspace: Workspace) -> list[Check]:
    def opened() -> Check:
        with workspace.store.reading() as connection:
            return checks.check_tables(connection, workspace.anchors)

    return [checks.STORE.run(opened)]


class _Kernel:
    """Whether effects can be confined, asked once a minute."""

    def __init__(self) -> None:
        self._found: tuple[float, Any] | None = None

    def check(self, setting: str) -> Check:
        if setting == "unsafe-none":
            return CONFINEMENT.warn("not asked for", "sandbox: required")
        now = time.monotonic()
        if self._found is None or now - self._found[0] > KERNEL_SECONDS:
            self._found = now, probe_kernel()
        features = self._found[1]
        works = features.confinement.works and features.seccomp.works
        return CONFINEMENT.ok("") if works else CONFINEMENT.fail("not offered", "See `remit doctor`.")
