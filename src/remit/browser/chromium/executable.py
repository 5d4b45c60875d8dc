"""The choice of the Chromium program, its user and its options."""

import os
import pwd
import shutil
from typing import Final

from remit.contracts.config.browser import Browser
from remit.core.errors import EnvironmentFailureError, Reason

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MINIMUM_VERSION: Final = 120
"""Older versions lack the headless mode of the full browser, or `checkVisibility`, which a click needs."""

VIEWPORT: Final = (1280, 800)

OMITTED_OPTIONS: Final = (
    "--disable-popup-blocking",
    "--disable-ipc-flooding-protection",
    "--enable-unsafe-swiftshader",
)
"""Options of Playwright that Remit removes, because each helps a hostile page."""

_DISABLED_FEATURES: Final = (
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PreconnectToSearch",
    "Prerender2",
    "SafeBrowsingRealTimeUrlLookup",
    "SpeculativeServiceWorkerWarmUp",
    "Translate",
    "WebOTP",
)


def options(spki: str) -> list[str]:
    """Return the options: no traffic of the browser's own, no connection except the proxy, and trust in the proxy's
    key.
    """
    return [
        "--proxy-bypass-list=<-loopback>",
        f"--ignore-certificate-errors-spki-list={spki}",
        "--disable-quic",
        "--disable-3d-apis",  # one page could keep the process busy that draws for all sessions
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--disable-domain-reliability",
        "--disable-client-side-phishing-detection",
        "--safebrowsing-disable-auto-update",
        "--disable-sync",
        "--no-pings",
        "--dns-prefetch-disable",
        "--disable-print-preview",
        "--disable-notifications",
        "--disable-file-system",
        "--noerrdialogs",
        f"--window-size={VIEWPORT[0]},{VIEWPORT[1]}",
        f"--disable-features={','.join(_DISABLED_FEATURES)}",
    ]


def find_program(config: Browser, search_path: str) -> str:
    """Return the configured program, else the first one in the search path. Relative entries of the path are
    skipped.
    """
    if config.executable is not None:
        if not os.access(config.executable, os.X_OK):
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                f"{config.executable} is not a program that can be run",
                where="remit.yaml, browser.executable",
                next_step="Name the Chromium to run, or remove the setting to use the one in the PATH.",
            )
        return config.executable
    absolute = os.pathsep.join(entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry))
    for name in NAMES:
        if absolute and (found := shutil.which(name, path=absolute)):
            return found
    raise EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "there is no Chromium on this machine",
        next_step="apt-get install chromium, or name one as browser.executable in remit.yaml.",
    )


def find_user(config: Browser, user_id: int) -> tuple[int, int] | None:
    """Return the user for Chromium: one without privileges if Remit runs as root, else None for the same user."""
    if user_id != 0:
        return None
    name = config.user or "nobody"
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        found = None
    if found is None or found.pw_uid == 0:
        problem = "is not a user of this machine" if found is None else "is root, and a browser must not run as root"
        raise EnvironmentFailureError(
            Reason.SANDBOX_UNAVAILABLE,
            f"{name} {problem}",
            where="remit.yaml, browser.user",
            next_step="Name a user without privileges, such as `nobody`.",
        )
    return found.pw_uid, found.pw_gid


def require_version(version: str) -> None:
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < MINIMUM_VERSION:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"Chromium {version} is too old: {MINIMUM_VERSION} or newer is needed",
            next_step="Update it: apt-get install chromium",
        )
