"""`remit token`.

The options of `remit token issue` are parsed strictly. The error for a wrong value says how to write it.
"""

import json
import os
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from remit.cli.common.completion import complete_token
from remit.cli.common.identity import require_clock
from remit.cli.common.options import json_option, open_output, output_option, show_json, show_table, workspace_option
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, CALL_NAME, SERVICE_CAPABILITIES, is_browser
from remit.contracts.browser.token_rules import READ, unchecked_constraints
from remit.contracts.domain_patterns import WILDCARD, normal_host, require_pattern
from remit.contracts.path_globs import require_glob
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, render_time
from remit.core.text import printable
from remit.identity.person import person_at_terminal
from remit.services.base.tenants import describe_unlisted_user, tenant_of_user
from remit.workspace.workspace import Workspace

_NUMBER: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,6})?")
_CALL: Final = re.compile(rf"call\.{CALL_NAME}")
_OPTIONS: Final = {
    "domains": "--domain",
    "max_purchase": "--max-purchase",
    "max_actions": "--max-actions",
    "user": "--user",
    "tenant": "--tenant",
    "paths": "--path",
    "connections": "--connection",
}
_CODE: Final = re.compile(r"[A-Z]{3}")
_OTHER_NAMES: Final = {
    "€": "EUR", "euro": "EUR", "euros": "EUR", "$": "USD", "us$": "USD", "dollar": "USD", "dollars": "USD",
    "£": "GBP", "pound": "GBP", "pounds": "GBP", "¥": "JPY", "yen": "JPY",
}  # fmt: skip


def read_domains(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for text in values:
        try:
            require_pattern(text)
        except ValueError as problem:
            raise _no_domain(text, str(problem)) from None
    return values


def read_globs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for text in values:
        try:
            require_glob(text)
        except ValueError as problem:
            raise RefusedError(
                Reason.MALFORMED,
                str(problem),
                where=f"--path {text}",
                next_step="Write a path below the root, such as --path 'docs/**' or --path README.md.",
            ) from None
    return values


def read_limit(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, str] | None
) -> dict[str, Any] | None:
    if values is None:
        return None
    number, currency = values
    if _NUMBER.fullmatch(number) and _CODE.fullmatch(currency):
        return {"value": float(number), "currency": currency}
    raise _no_limit(number, currency)


def read_capabilities(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Complete the name of a browser action: `click` means `browser.click`."""
    whole = tuple(f"browser.{name}" if f"browser.{name}" in BROWSER_CAPABILITIES else name for name in values)
    for name in whole:
        if name not in {*BROWSER_CAPABILITIES, *SERVICE_CAPABILITIES} and not _CALL.fullmatch(name):
            capabilities = ", ".join(
                (*(each.removeprefix("browser.") for each in BROWSER_CAPABILITIES), *SERVICE_CAPABILITIES)
            )
            raise RefusedError(
                Reason.MALFORMED,
                "unknown capability",
                where=f"--cap {name}",
                next_step=f"Use one of {capabilities}, or call.NAME for a governed function.",
            )
    return whole


def complete_capability(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    names = [*(each.removeprefix("browser.") for each in BROWSER_CAPABILITIES), *SERVICE_CAPABILITIES]
    return [name for name in names if name.startswith(incomplete)]


def require_checked(caps: Collection[str], constraints: Collection[str]) -> None:
    """Refuse a limit that no capability of the token checks. The message names the options."""
    for problem in unchecked_constraints(caps, constraints):
        option = _OPTIONS[problem.constraint]
        raise RefusedError(
            Reason.MALFORMED,
            _in_options(problem.why, problem.constraint),
            where=option,
            next_step=_in_options(problem.next_step, problem.constraint),
        )


def _in_options(text: str, constraint: str) -> str:
    """Replace the name of the constraint by its option, and write capabilities as `--cap` takes them."""
    named = re.sub(rf"\b{constraint}\b", _OPTIONS[constraint], text)
    return re.sub(r"\bbrowser\.", "", named).replace("such a capability", "such a capability (--cap)")


def require_sense(caps: Collection[str], limits: Mapping[str, Any]) -> None:
    """Refuse a token that could never be used, when it is issued and not when it is first used."""
    limit, user = limits["max_purchase"], limits["user"]
    if READ in caps and not limits["paths"] and not limits["connections"]:
        raise RefusedError(
            Reason.MALFORMED,
            "a token with plan.read needs files or connections: without both, the agent can read nothing",
            where=f"--cap {READ}",
            next_step="Name files, such as --path 'docs/**', or a connection, such as --connection sales.",
        )
    if "goal.ask" in caps and user is None:
        raise RefusedError(
            Reason.MALFORMED,
            "a token with goal.ask needs a user: without a user, the agent cannot ask for any goal",
            where="--cap goal.ask",
            next_step="Name the user, such as --user ana. If there are several tenants, also --tenant acme.",
        )
    if "browser.purchase" in caps and limit is None:
        raise RefusedError(
            Reason.MALFORMED,
            "a token with browser.purchase needs a limit: without a limit, it allows no purchase",
            where="--cap purchase",
            next_step="Name the highest price of one purchase, such as --max-purchase 50 EUR.",
        )


def echo_unlisted_user(workspace: Workspace, user: str | None, tenant: str | None) -> None:
    """Print a note if remit.yaml does not list the user. The user may be added later, so it is not refused."""
    note = describe_unlisted_user(workspace, user, tenant)
    if note is not None:
        click.echo(f"note: {printable(note)}", err=True)


def _no_domain(text: str, why: str) -> RefusedError:
    host = _guess_host(text)
    if not host:
        advice = "Write a host, such as shop.example, or *.shop.example for the names one label below it."
        return RefusedError(Reason.MALFORMED, why, where=f"--domain {text}", next_step=advice)
    what = "a domain is only a host name in ASCII, without scheme, port and path"
    also = " (The setting browser.ports in remit.yaml allows ports.)" if re.search(r":\d+(/|$)", text) else ""
    return RefusedError(Reason.MALFORMED, what, where=f"--domain {text}", next_step=f"Write: --domain {host}{also}")


def _guess_host(text: str) -> str:
    """Return the host of a pasted address, or of a name in another script. Empty if the text cannot be read so."""
    try:
        found = urlsplit(text if "://" in text else f"//{text}").hostname or ""
        star = WILDCARD if found.startswith(WILDCARD) else ""
        host = normal_host(found.removeprefix(WILDCARD).encode("idna").decode("ascii"))
        require_pattern(star + host)
    except (ValueError, UnicodeError):
        return ""
    return "" if star + host == text else star + host


def _no_limit(number: str, currency: str) -> RefusedError:
    if currency.replace(".", "").isdigit():  # the other way round
        number, currency = currency, number
    code = currency.upper() if re.fullmatch(r"[A-Za-z]{3}", currency) else _OTHER_NAMES.get(currency.lower(), "EUR")
    if not _NUMBER.fullmatch(number):
        what = "an amount is a number with a point before the decimals and no separator between the thousands"
        plain = number.replace(",", ".") if re.fullmatch(r"\d+,\d{1,2}", number) else "49.90"
        number = plain
    elif currency.startswith("-"):
        what = "the currency is missing after the number"
    elif _CODE.fullmatch(currency):
        what = "the number comes before the currency"
    else:
        what = "a currency is a code of three capital letters (ISO 4217)"
    return RefusedError(
        Reason.MALFORMED, what, where="--max-purchase", next_step=f"Such as: --max-purchase {number} {code}"
    )


if TYPE_CHECKING:
    from remit.crypto.rsa_keys import TokenKey
    from remit.store.tokens import TokenRow

ACTIONS: Final = ("navigate", "click", "type", "screenshot", "snapshot", "submit", "purchase")
UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
MAX_PEM: Final = 64 * 1024
_LIFE: Final = re.compile(r"([1-9][0-9]{0,6})([smhd])")


class Life(click.ParamType[timedelta]):
    """A number and a unit."""

    name = "life"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _LIFE.fullmatch(value)
        if found is None:
            self.fail("write a whole number and s, m, h or d, such as 90s, 30m, 1h or 7d", param, ctx)
        return timedelta(seconds=int(found[1]) * UNITS[found[2]])


class Moment(click.ParamType[datetime]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_time(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


@click.group()
def token() -> None:
    """Issue, revoke and list capability tokens.

    A token says what an agent may do, and until when. A workspace can also trust the tokens of other issuers.
    """


@token.command()
@click.option("--sub", "agent", required=True, metavar="AGENT", help="The agent that gets the token.")
@click.option(
    "--cap",
    "caps",
    multiple=True,
    required=True,
    metavar="CAPABILITY",
    callback=read_capabilities,
    shell_complete=complete_capability,
    help=f"A capability that the token gives. May be repeated. For the browser: {', '.join(ACTIONS)}. For everything"
    f" else: {', '.join(SERVICE_CAPABILITIES)}, and call.NAME for a governed function.",
)
@click.option(
    "--domain",
    "domains",
    multiple=True,
    callback=read_domains,
    help="A host that the browser may use, or *.HOST for the names one label below it. May be repeated.",
)
@click.option(
    "--max-purchase",
    "limit",
    nargs=2,
    metavar="AMOUNT CURRENCY",
    callback=read_limit,
    help="The highest price of one purchase, such as 50 USD. Necessary with --cap purchase.",
)
@click.option("--max-actions", type=click.IntRange(1, 1_000_000), help="The highest number of browser actions.")
@click.option("--user", help="The user for whom the agent asks for goals. Necessary with --cap goal.ask.")
@click.option("--tenant", help="The tenant of that user. Not necessary if there is only one.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    callback=read_globs,
    help="Files whose content previews show to the agent, such as 'docs/**', relative to the root. For --cap plan.read."
    " May be repeated.",
)
@click.option(
    "--connection",
    "connections",
    multiple=True,
    metavar="NAME",
    help="A connection of remit.yaml whose rows previews show to the agent. For --cap plan.read. May be repeated.",
)
@click.option(
    "--life",
    type=Life(),
    default="1h",
    show_default=True,
    help="How long the token is valid, such as 90s, 30m, 1h or 7d. It must end within 31 days from now.",
)
@click.option(
    "--not-before", type=Moment(), help="The time from which the token is valid, such as 2026-01-31T09:30:00Z."
)
@output_option
@workspace_option
@json_option
def issue(  # noqa: PLR0913, PLR0917 - one for each option
    agent: str,
    caps: tuple[str, ...],
    domains: tuple[str, ...],
    limit: dict[str, Any] | None,
    max_actions: int | None,
    user: str | None,
    tenant: str | None,
    paths: tuple[str, ...],
    connections: tuple[str, ...],
    life: timedelta,
    not_before: datetime | None,
    output: Path | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Sign a token and print it.

    Anyone who has the text of the token can act with it. Remit keeps no copy. The first token also makes the policy
    key.

    Without --domain, the token allows no host. With --max-purchase, no request that names a higher price is sent, from
    any action.

    An agent with plan.propose sees of a preview what it sent itself. With plan.read it also sees the preview of its
    own proposals as people see it, masked, if every file of the plan is named by --path and every connection by
    --connection. It never sees protected files, and no file that holds what looks like a credential.

    --domain, --max-purchase and --max-actions are only for capabilities of the browser, --user and --tenant only for
    goal.ask, --path and --connection only for plan.read. The command refuses a limit that no capability of the token
    checks.
    """
    from remit.authority.capability_token import TokenRequest  # noqa: PLC0415 - loads PyJWT; `remit token --help` does without

    limits = {
        "domains": list(domains) or None,
        "max_purchase": limit,
        "max_actions": max_actions,
        "paths": list(paths) or None,
        "connections": list(connections) or None,
    }
    limits_and_user = {**limits, "user": user, "tenant": tenant}
    require_sense(caps, limits_and_user)
    require_checked(caps, [name for name, value in limits_and_user.items() if value is not None])
    if not domains and any(map(is_browser, caps)):
        click.echo("note: without --domain, the token allows no host", err=True)
    if output is not None and os.path.lexists(output):
        raise RefusedError(
            Reason.FILE_CONFLICT,
            "the file exists already; it may hold the only copy of a token",
            where=str(output),
            next_step="Give another file, or remove this one.",
        )
    # A token is as secret as a password. No other user may open the file, not even while it is empty.
    with open_output(output, is_secret=True) as out:
        with Workspace.open(directory) as workspace:
            who = person_at_terminal(workspace.environ)
            begins = max(not_before - workspace.clock(), timedelta(0)) if not_before else timedelta(0)
            require_clock(workspace, begins + life)
            user_constraints = {"user": user, "tenant": tenant_of_user(workspace, user, tenant, "--")}
            constraints = TokenConstraints.from_tree(limits | user_constraints, source="the token's constraints")
            wish = TokenRequest(agent, caps, constraints, life, not_before)
            issued = workspace.tokens.issue(wish, actor=who.id)
            echo_unlisted_user(workspace, user, constraints.tenant)
        if output is not None:
            out.write(issued.text.encode() + b"\n")
    summary = {"jti": issued.claims.jti, "sub": issued.claims.sub, "kid": issued.kid, "expires_at": _time(issued)}
    if as_json:
        show_json(summary if output is not None else {**summary, "token": issued.text})
    elif output is None:
        click.echo(issued.text)
    else:
        click.echo(f"Token {issued.claims.jti} for {issued.claims.sub} until {summary['expires_at']}, in {output}")


@token.command()
@click.argument("jti", shell_complete=complete_token)
@click.option("--reason", help="The reason, for the ledger.")
@workspace_option
@json_option
def revoke(jti: str, reason: str | None, directory: Path, as_json: bool) -> None:
    """Revoke a token at once, everywhere this ledger is used.

    JTI is the id of the token. For a token that this workspace issued, the beginning of the id is enough. You can also
    revoke a token of another issuer that was never used here. Approval requests of the token become void.
    """
    with Workspace.open(directory) as workspace:
        whole = workspace.tokens.revoke(jti, actor=person_at_terminal(workspace.environ).id, reason=reason)
        is_known = any(row.jti == whole for row in workspace.tokens.listed())
    if not is_known:
        click.echo(
            "note: this workspace did not issue a token with this id; one of another issuer is revoked now",
            err=True,
        )
    if as_json:
        show_json({"jti": whole, "state": "revoked"})
    else:
        click.echo(f"Token {whole} is revoked")


@token.command("list")
@workspace_option
@json_option
def list_tokens(directory: Path, as_json: bool) -> None:
    """List the tokens that this workspace issued, the newest first.

    The column `used` counts the browser actions of a token. It is - for a token without a right to the browser, because
    other uses are not counted.

    Also lists the tokens of other issuers that were revoked here. The state "key revoked" means that the key of the
    token was revoked, so the token is not valid.
    """
    with Workspace.open(directory) as workspace:
        found, now = workspace.tokens.listed(), render_time(workspace.clock())
        foreign = workspace.tokens.foreign_revocations()
        leaked = {key.kid: key.revoked_at for key in workspace.tokens.keys if key.revoked_at}
    if as_json:
        show_json(
            {
                "tokens": [_tree(row, now, leaked) for row in found],
                "revoked_elsewhere": [one._asdict() for one in foreign],
            }
        )
        return
    if not found and not foreign:
        click.echo(
            "This workspace has issued no token. Issue one: remit token issue --sub AGENT --cap navigate --domain HOST"
        )
        return
    rows = [
        (row.jti, row.sub, _state(row, now, leaked), _used(row), _short_caps(row), _scope(row)) for row in found
    ] + [(one.jti, "", f"revoked {one.revoked_at[:19]}Z", "", "", "another issuer") for one in foreign]
    show_table(("jti", "agent", "state", "used", "may", "where"), rows, prose={"may", "where"})


@token.command("keys")
@workspace_option
@json_option
def list_keys(directory: Path, as_json: bool) -> None:
    """List the public keys that verify tokens.

    These are the keys of this workspace and the keys of the other issuers that it trusts.
    """
    from remit.crypto.rsa_keys import render_rsa_pem  # noqa: PLC0415 - as above

    with Workspace.open(directory) as workspace:
        found = list(workspace.tokens.keys)
    if as_json:
        show_json(
            [
                {"kid": key.kid, "origin": key.origin, "state": _key_state(key), "pem": render_rsa_pem(key)}
                for key in found
            ]
        )
    elif found:
        rows = [(key.kid, key.origin, key.public.key_size, _key_state(key), key.created_at[:19] + "Z") for key in found]
        show_table(("kid", "origin", "bits", "state", "since"), rows)
    else:
        click.echo("There is no key yet. The first `remit token issue` makes one.")


@token.command("rotate-key")
@click.option(
    "--revoke",
    "leaked",
    is_flag=True,
    help="Also revoke the active key, because it may have leaked. Every token that it signed becomes invalid. For a key"
    " that is already retired: remit token distrust KID.",
)
@workspace_option
@json_option
def rotate_key(leaked: bool, directory: Path, as_json: bool) -> None:
    """Make a new key for the tokens of this workspace, and retire the active one.

    Tokens that the retired key signed stay valid until they expire. --revoke revokes only the key that was active until
    now. To revoke a key that was retired earlier, use `remit token distrust KID`.
    """
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ)
        retired = [
            key.kid for key in workspace.tokens.keys if key.origin == "own" and key.retired_at and not key.revoked_at
        ]
        old, new = workspace.tokens.rotate_key(revoke=leaked, actor=who.id)
    if as_json:
        show_json({"old_kid": old.kid if old else None, "new_kid": new.kid, "old_state": old and _key_state(old)})
        return
    if old is not None:
        click.echo(f"{old.kid} is {_key_state(old)}")
    click.echo(f"{new.kid} signs from now on")
    if leaked and retired:
        click.echo(
            "note: tokens of the keys that were retired before stay valid. If one of these keys may have leaked:\n"
            + "\n".join(f"  remit token distrust {kid}" for kid in retired),
            err=True,
        )


@token.command()
@click.argument("pem", type=click.File("rb"))
@click.option("--kid", help="The id of the key in the tokens of the issuer. The default is the RFC 7638 thumbprint.")
@workspace_option
@json_option
def trust(pem: Any, kid: str | None, directory: Path, as_json: bool) -> None:
    """Trust the tokens of another issuer.

    PEM is a file with the RSA public key of the issuer, of 2048 bits or more.
    """
    raw = pem.read(MAX_PEM)
    with Workspace.open(directory) as workspace:
        who = person_at_terminal(workspace.environ)
        key = workspace.tokens.trust_key(raw, kid=kid, source=pem.name, actor=who.id)
    if as_json:
        show_json({"kid": key.kid, "state": _key_state(key)})
    else:
        click.echo(f"Tokens that {key.kid} signs are trusted from now on")


@token.command()
@click.argument("kid")
@workspace_option
@json_option
def distrust(kid: str, directory: Path, as_json: bool) -> None:
    """Revoke a key that verifies tokens: a retired key of this workspace, or the key of another issuer.

    Every token that it ever signed becomes invalid. `remit token keys` lists the keys. For the active key of this
    workspace, which signs new tokens: remit token rotate-key --revoke.
    """
    with Workspace.open(directory) as workspace:
        key = workspace.tokens.revoke_key(kid, actor=person_at_terminal(workspace.environ).id)
    if as_json:
        show_json({"kid": key.kid, "state": _key_state(key)})
    else:
        click.echo(f"{key.kid} is {_key_state(key)}")


def _time(issued: Any) -> str:
    return f"{datetime.fromtimestamp(issued.claims.exp, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _tree(row: "TokenRow", now: str, leaked: Mapping[str, str]) -> dict[str, Any]:
    return {
        **row._asdict(),
        "caps": json.loads(row.caps),
        "constraints": json.loads(row.constraints),
        "state": _state(row, now, leaked),
    }


def _state(row: "TokenRow", now: str, leaked: Mapping[str, str]) -> str:
    """Return the state of a token. `leaked` has the time of revocation of each revoked key, by `kid`."""
    if row.revoked_at:
        return f"revoked {row.revoked_at[:19]}Z"
    if row.expires_at <= now:
        return f"expired {row.expires_at[:19]}Z"
    if row.kid in leaked:
        return f"key revoked {leaked[row.kid][:19]}Z"
    if row.not_before > now:
        return f"from {row.not_before[:19]}Z"
    return f"until {row.expires_at[:19]}Z"


def _used(row: "TokenRow") -> str:
    """Return the number of browser actions. Uses of other capabilities are not counted."""
    if not any(map(is_browser, json.loads(row.caps))):
        return "-"
    most = json.loads(row.constraints).get("max_actions")
    return f"{row.uses:,} of {most:,}" if most else f"{row.uses:,}"


def _short_caps(row: "TokenRow") -> str:
    return " ".join(cap.removeprefix("browser.") for cap in json.loads(row.caps))


def _scope(row: "TokenRow") -> str:
    constraints = json.loads(row.constraints)
    limit = constraints.get("max_purchase")
    spends = f"; at most {limit['value']:g} {limit['currency']}" if isinstance(limit, dict) else ""
    none = "nowhere" if any(map(is_browser, json.loads(row.caps))) else "-"
    return (" ".join(constraints.get("domains") or ()) or none) + spends


def _key_state(key: "TokenKey") -> str:
    if key.revoked_at:
        return f"revoked {key.revoked_at[:19]}Z"
    return f"retired {key.retired_at[:19]}Z" if key.retired_at else "active"
