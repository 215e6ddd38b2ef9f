"""`streamweir keys`: creates, lists, shows, changes, rotates and revokes keys, directly in the store.

Commands that create a secret write only the secret to standard output, for scripts; all other text goes to standard
error. `store.keys.spec` validates the values. A key is identified by its name or its id.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from streamweir.cli.argument import DOLLARS, LENGTH, NO_LIMIT, OrNone, moment_type
from streamweir.cli.database import ACTOR, StoreAccess, json_option, store_options
from streamweir.cli.price_group import warn_of_unknown_group
from streamweir.cli.view.table import NONE, day, dollars, moment, number, show_facts, show_json, show_table
from streamweir.policy.limits.key_limits import KINDS
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.store.keys.keys import KeyRecord, NewSecret

_LIMIT = click.IntRange(min=1)
_EXPIRY = moment_type(now_ms)
_PERIODS = click.Choice(["day", "week", "month", "total"])
_workspace_option = click.option("--workspace", metavar="W", help="Workspace of the key (name or id).")


def _repeated(name: str, metavar: str, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", f"{name}s", multiple=True, metavar=metavar, help=help)


def _limit_options(kind: click.ParamType[Any], metavar: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One for each kind of limit."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for each in reversed(KINDS):
            name = f"--{each.name.replace('_', '-')}"
            function = click.option(name, type=kind, metavar=metavar, help=f"Maximum {each.label}.")(function)
        return function

    return add


@click.group("keys", short_help="Create, list, show, change, revoke and rotate API keys.")
def command() -> None:
    """Create and change API keys. A running server applies a change within two seconds."""


@command.command("create")
@click.argument("name")
@click.option(
    "--workspace", default="default", show_default=True, metavar="W", help="Workspace of the key (name or id)."
)
@_repeated("scope", "SCOPE", "chat, models, admin or metrics; may be repeated.  [default: chat, models]")
@_repeated("model", "MODEL", "An allowed model, or a prefix followed by *; may be repeated.  [default: every model]")
@_limit_options(_LIMIT, "N")
@click.option("--budget", "budget_nano", type=DOLLARS, help="Maximum spend in US dollars per --period.")
@click.option("--period", "budget_period", type=_PERIODS, help="Budget period (UTC).  [default: total]")
@click.option("--dialect", metavar="D", help="Dialect of the answers.  [default: the server's]")
@click.option(
    "--expires", "expires_ms", type=_EXPIRY, metavar="30d|DATE", help="When the key expires.  [default: never]"
)
@click.option("--log-content", is_flag=True, help="Store prompts and answers.")
@click.option("--show-routing", is_flag=True, help="Show target, attempts and cost in headers of answers.")
@click.option("--show-cost", is_flag=True, help="Show what the caller pays in the usage of answers.")
@click.option("--resumable", is_flag=True, help="Let callers come back to streams that they lost.")
@click.option("--price-group", metavar="G", help="Price group of the configuration.  [default: the workspace's]")
@click.option("--person", metavar="P", help="Whose key it is (name or id), of the people of its workspace.")
@json_option
@store_options
def create(
    access: StoreAccess,
    workspace: str,
    scopes: tuple[str, ...],
    models: tuple[str, ...],
    person: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Create the key NAME and print its secret once. Only a digest is stored."""
    from streamweir.store.keys.keys import create_key
    from streamweir.store.keys.spec import KeySpec
    from streamweir.store.keys.workspaces import find_workspace

    if scopes:
        more["scopes"] = scopes
    spec = KeySpec(models=models or None, **more)
    warn_of_unknown_group(access, spec.price_group)
    at_ms = now_ms()

    def work(conn: "Connection") -> "tuple[NewSecret, str]":
        found = find_workspace(conn, workspace)
        owned = structs.replace(spec, person_id=_person_id(conn, person))
        return create_key(conn, found.id, owned, actor=ACTOR, at_ms=at_ms), found.name

    _show_secret(*access.write(work), as_json)


@command.command("list")
@_workspace_option
@click.option("--all", "with_revoked", is_flag=True, help="Include revoked keys.")
@json_option
@store_options
def list_(access: StoreAccess, workspace: str | None, with_revoked: bool, as_json: bool) -> None:
    """List the keys, oldest first."""
    from streamweir.store.keys.keys import list_keys
    from streamweir.store.keys.people import list_people
    from streamweir.store.keys.workspaces import list_workspaces

    def work(conn: "Connection") -> "tuple[list[KeyRecord], dict[str, str]]":
        names = {each.id: each.name for each in list_workspaces(conn)}
        names |= {each.id: each.name for each in list_people(conn)}
        return list_keys(conn, _workspace_id(conn, workspace), revoked=None if with_revoked else False), names

    keys, names = access.read(work)
    if as_json:
        show_json(keys)
        return
    columns = ("name", "id", "workspace", "secret", "state", "scopes", "models", "limits", "expires", "person")
    rows = [
        (
            key.name,
            key.id,
            names.get(key.workspace_id, key.workspace_id),
            _ending(key),
            _state(key),
            ",".join(key.scopes),
            _models(key),
            _limits(key),
            day(key.expires_ms),
            names.get(key.person_id or "", NONE),
        )
        for key in keys
    ]
    show_table(columns, rows, none="There are no keys. `streamweir keys create NAME` makes one.")


@command.command("show")
@click.argument("key")
@_workspace_option
@json_option
@store_options
def show(access: StoreAccess, key: str, workspace: str | None, as_json: bool) -> None:
    """Show the details of KEY (name or id)."""
    from streamweir.store.keys.keys import find_key

    found, name = access.read(lambda conn: _with_workspace(conn, find_key(conn, key, _workspace_id(conn, workspace))))
    show_json(found) if as_json else show_facts(_facts(found, name))


@command.command("change")
@click.argument("key")
@_workspace_option
@click.option("--name", metavar="NAME", help="New name.")
@_repeated("scope", "SCOPE", "New scopes; may be repeated.")
@_repeated("model", "MODEL", "New allowed models; may be repeated.")
@click.option("--all-models", is_flag=True, help="Allow every model.")
@_limit_options(OrNone(_LIMIT), "N|none")
@click.option(
    "--budget",
    "budget_nano",
    type=OrNone(DOLLARS),
    metavar="USD|none",
    help="Maximum spend in US dollars per --period.",
)
@click.option("--period", "budget_period", type=_PERIODS, help="Budget period (UTC).")
@click.option("--dialect", metavar="D|none", help="Dialect of the answers.")
@click.option("--expires", "expires_ms", type=OrNone(_EXPIRY), metavar="30d|DATE|never", help="When the key expires.")
@click.option("--log-content/--no-log-content", default=None, help="Store prompts and answers, or not.")
@click.option(
    "--show-routing/--no-show-routing", default=None, help="Show target, attempts and cost in headers, or not."
)
@click.option("--show-cost/--no-show-cost", default=None, help="Show what the caller pays in the usage, or not.")
@click.option(
    "--resumable/--no-resumable", default=None, help="Let callers come back to streams that they lost, or not."
)
@click.option("--price-group", metavar="G|none", help="Price group of the configuration.")
@click.option("--person", metavar="P|none", help="Whose key it is (name or id).")
@json_option
@store_options
def change(
    access: StoreAccess,
    key: str,
    workspace: str | None,
    all_models: bool,
    person: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Change KEY (name or id). Options that are not given stay as they are; `none` removes a limit."""
    from streamweir.store.keys.keys import change_key, find_key
    from streamweir.store.keys.spec import KeyChange

    if all_models and more["models"]:
        raise click.UsageError("--all-models and --model cannot be combined")
    named = {name: value for name, value in more.items() if value not in (None, ())}
    wanted: dict[str, Any] = {
        name: None if value == NO_LIMIT and name not in _TEXTS else value for name, value in named.items()
    }
    if all_models:
        wanted["models"] = None
    if not wanted and person is None:
        raise click.UsageError("nothing to change: see `streamweir keys change --help`")
    warn_of_unknown_group(access, wanted.get("price_group"))
    at_ms = now_ms()

    def work(conn: "Connection") -> "tuple[KeyRecord, str]":
        found = find_key(conn, key, _workspace_id(conn, workspace))
        if person is not None:
            wanted["person_id"] = None if person == NO_LIMIT else _person_id(conn, person)
        return _with_workspace(conn, change_key(conn, found.id, KeyChange(**wanted), actor=ACTOR, at_ms=at_ms))

    changed, name = access.write(work)
    show_json(changed) if as_json else show_facts(_facts(changed, name))


@command.command("revoke")
@click.argument("key")
@_workspace_option
@json_option
@store_options
def revoke(access: StoreAccess, key: str, workspace: str | None, as_json: bool) -> None:
    """Revoke KEY (name or id) permanently. Its running streams end."""
    from streamweir.store.keys.keys import find_key, revoke_key

    at_ms = now_ms()

    def work(conn: "Connection") -> "KeyRecord":
        found = find_key(conn, key, _workspace_id(conn, workspace))
        return revoke_key(conn, found.id, actor=ACTOR, at_ms=at_ms)

    revoked = access.write(work)
    if as_json:
        show_json(revoked)
    else:
        show_facts([("revoked", f"{revoked.name} ({revoked.id}), since {moment(revoked.revoked_ms)}")])


@command.command("rotate")
@click.argument("key")
@_workspace_option
@click.option(
    "--grace",
    "grace_ms",
    type=LENGTH,
    metavar="LENGTH",
    default="1h",
    show_default=True,
    help="How long the old secret stays valid, such as 30m or 0.",
)
@json_option
@store_options
def rotate(access: StoreAccess, key: str, workspace: str | None, grace_ms: int, as_json: bool) -> None:
    """Create a new secret for KEY and print it once. `--grace 0` ends the old one immediately."""
    from streamweir.store.keys.keys import find_key, rotate_key

    at_ms = now_ms()

    def work(conn: "Connection") -> "tuple[NewSecret, str]":
        found = find_key(conn, key, _workspace_id(conn, workspace))
        new = rotate_key(conn, found.id, grace_ms=grace_ms, actor=ACTOR, at_ms=at_ms)
        return new, _with_workspace(conn, found)[1]

    _show_secret(*access.write(work), as_json)


_TEXTS = ("name", "scopes", "models")
"""Options for which `none` is an ordinary value."""


def _workspace_id(conn: "Connection", workspace: str | None) -> str | None:
    from streamweir.store.keys.workspaces import find_workspace

    return find_workspace(conn, workspace).id if workspace is not None else None


def _person_id(conn: "Connection", person: str | None) -> str | None:
    from streamweir.store.keys.people import find_person

    return find_person(conn, person).id if person is not None else None


def _with_workspace(conn: "Connection", key: "KeyRecord") -> "tuple[KeyRecord, str]":
    """And the name of its workspace."""
    from streamweir.store.keys.workspaces import find_workspace

    return key, find_workspace(conn, key.workspace_id).name


def _show_secret(new: "NewSecret", workspace: str, as_json: bool) -> None:
    if as_json:
        show_json({"key": new.key, "secret": new.secret})
    else:
        show_facts(_facts(new.key, workspace), err=True)
        click.echo("\nThe secret (it is not stored and will not be shown again):\n", err=True)
        click.echo(new.secret)


def _facts(key: "KeyRecord", workspace: str) -> list[tuple[str, str]]:
    facts = [
        ("name", key.name),
        ("id", key.id),
        ("workspace", workspace),
        ("person", key.person_id or "nobody's"),
        ("origin", "the configuration file" if key.origin == "file" else "made here"),
        ("secret", _ending(key)),
        ("state", _state(key)),
        ("scopes", ", ".join(key.scopes)),
        ("models", _models(key)),
        ("dialect", key.dialect or "the server's"),
        *((kind.name.replace("_", " "), number(getattr(key, kind.name))) for kind in KINDS),
        ("budget", _budget(key)),
        ("content", "may be logged" if key.log_content else "is not logged"),
        ("routing", "is shown in headers" if key.show_routing else "is not shown"),
        ("cost", "is shown in the usage of answers" if key.show_cost else "is not shown"),
        ("streams", "can be resumed" if key.resumable else "can be resumed on request"),
        ("price group", key.price_group or "the workspace's"),
        ("created", moment(key.created_ms)),
        ("expires", moment(key.expires_ms)),
    ]
    if key.old_until_ms is not None and key.old_until_ms > now_ms():
        facts.append(("old secret", f"valid until {moment(key.old_until_ms)}"))
    return facts


def _ending(key: "KeyRecord") -> str:
    return f"...{key.last4}"


def _state(key: "KeyRecord") -> str:
    if key.revoked_ms is not None:
        return "revoked"
    return "expired" if key.expires_ms is not None and key.expires_ms <= now_ms() else "active"


def _models(key: "KeyRecord") -> str:
    return "all" if key.models is None else ", ".join(key.models) or "none"


def _limits(key: "KeyRecord") -> str:
    limits = ((kind.unit, getattr(key, kind.name)) for kind in KINDS)
    parts = [f"{value:,} {unit}" for unit, value in limits if value is not None]
    return ", ".join([*parts, _budget(key)] if key.budget_nano is not None else parts) or NONE


def _budget(key: "KeyRecord") -> str:
    if key.budget_nano is None:
        return NONE
    return f"{dollars(key.budget_nano)} {'in total' if key.budget_period == 'total' else f'a {key.budget_period}'}"
