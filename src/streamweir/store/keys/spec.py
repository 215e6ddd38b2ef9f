"""The settings of a key that can be chosen when it is created or changed, and their validation.

`KeySpec` has all settings, `KeyChange` those to change: UNSET means no change, None removes a limit. Neither contains a
secret, an id or a workspace, so callers cannot choose those (docs/spec/security.md S19). Pure: nothing is looked up
here.
"""

from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, structs

from streamweir.frontends.table import FRONTENDS
from streamweir.policy.access import fault_of_scopes
from streamweir.policy.limits.budget import PERIODS
from streamweir.policy.limits.key_limits import KINDS, KeyLimits, LimitChanges, with_limits
from streamweir.policy.routing.route import MAX_NAME_LENGTH as MAX_MODEL_LENGTH
from streamweir.store.db.errors import Invalid
from streamweir.store.keys.workspaces import check_name

SCOPES = ("chat", "models", "admin", "metrics")

MAX_BUDGET_NANO = 10**18
"""A thousand million dollars."""
MAX_MODELS = 1000
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last date that can be represented."""


class _KeyNames(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    scopes: tuple[str, ...] = ("chat", "models")
    models: tuple[str, ...] | None = None
    """Ids, or prefixes of ids with a `*` after them. None: every model."""
    dialect: str | None = None


if TYPE_CHECKING:

    class _NamesAndLimits(_KeyNames, KeyLimits, frozen=True): ...

else:
    _NamesAndLimits = with_limits(_KeyNames)


class KeySpec(_NamesAndLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    budget_nano: int | None = None
    budget_period: str | None = None
    """Of a budget; `total` by default."""
    log_content: bool = False
    show_routing: bool = False
    show_cost: bool = False
    resumable: bool = False
    price_group: str | None = None
    person_id: str | None = None
    """Whose key it is, of the people of its workspace."""
    expires_ms: int | None = None


class KeyChange(LimitChanges, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str | UnsetType = UNSET
    scopes: tuple[str, ...] | UnsetType = UNSET
    models: tuple[str, ...] | None | UnsetType = UNSET
    dialect: str | None | UnsetType = UNSET
    budget_nano: int | None | UnsetType = UNSET
    budget_period: str | None | UnsetType = UNSET
    log_content: bool | UnsetType = UNSET
    show_routing: bool | UnsetType = UNSET
    show_cost: bool | UnsetType = UNSET
    resumable: bool | UnsetType = UNSET
    price_group: str | None | UnsetType = UNSET
    person_id: str | None | UnsetType = UNSET
    expires_ms: int | None | UnsetType = UNSET


def changed(spec: KeySpec, change: KeyChange) -> KeySpec:
    """`spec` with the change. Without a budget there is no period."""
    wanted = {name: value for name, value in structs.asdict(change).items() if value is not UNSET}
    if change.budget_nano is None and change.budget_period is UNSET:
        wanted["budget_period"] = None
    return structs.replace(spec, **wanted)


def checked(spec: KeySpec, at_ms: int, old: KeySpec | None = None) -> KeySpec:
    """Normalized: each scope and model once, a period with each budget. Raises `Invalid`.

    `old`: the current settings. An expiry in the past may stay unchanged, but cannot be set.
    """
    check_name(spec.name)
    _check_scopes(spec.scopes)
    _check_models(spec.models)
    if spec.dialect is not None and spec.dialect not in (names := FRONTENDS.dialects):
        raise Invalid(f"unknown dialect {dumps(spec.dialect[:40])}: expected {', '.join(names)}", "dialect")
    for kind in KINDS:
        value = getattr(spec, kind.name)
        if value is not None and not 1 <= value <= kind.maximum:
            raise Invalid(f"{kind.name} must be between 1 and {kind.maximum}", kind.name)
    _check_budget(spec)
    if spec.price_group is not None:
        check_name(spec.price_group, "price_group")
    if spec.expires_ms is not None and (old is None or spec.expires_ms != old.expires_ms):
        if spec.expires_ms <= at_ms:
            raise Invalid("a key must expire in the future", "expires_ms")
        if spec.expires_ms > LAST_MS:
            raise Invalid("a key must expire before the year 10000", "expires_ms")
    return structs.replace(
        spec,
        scopes=tuple(scope for scope in SCOPES if scope in spec.scopes),
        models=tuple(dict.fromkeys(spec.models)) if spec.models is not None else None,
        budget_period=(spec.budget_period or "total") if spec.budget_nano is not None else None,
    )


def differences(old: KeySpec, new: KeySpec) -> dict[str, dict[str, Any]]:
    """The details of a change for the audit log."""
    before, after = structs.asdict(old), structs.asdict(new)
    return {name: {"from": before[name], "to": after[name]} for name in after if before[name] != after[name]}


def non_default_fields(spec: KeySpec) -> Mapping[str, Any]:
    """The details of a new key for the audit log: all settings that are not the default."""
    defaults = structs.asdict(KeySpec(name=""))
    return {name: value for name, value in structs.asdict(spec).items() if value != defaults[name]}


def _check_scopes(scopes: tuple[str, ...]) -> None:
    if not scopes:
        raise Invalid("a key needs at least one scope", "scopes")
    for scope in scopes:
        if scope not in SCOPES:
            raise Invalid(f"unknown scope {dumps(scope[:40])}: expected {', '.join(SCOPES)}", "scopes")
    if fault := fault_of_scopes(scopes):
        raise Invalid(fault, "scopes")


def _check_models(models: tuple[str, ...] | None) -> None:
    if models is None:
        return
    if len(models) > MAX_MODELS:
        raise Invalid(f"a key can list at most {MAX_MODELS} models", "models")
    for pattern in models:
        is_text = 1 <= len(pattern) <= MAX_MODEL_LENGTH and pattern.isprintable() and pattern == pattern.strip()
        if not is_text or "*" in pattern[:-1]:
            reason = f"expected a model id, or a prefix followed by *, got {dumps(pattern[:40])}"
            raise Invalid(reason, "models")


def _check_budget(spec: KeySpec) -> None:
    if spec.budget_period is not None and spec.budget_period not in PERIODS:
        reason = f"unknown period {dumps(spec.budget_period[:40])}: expected {', '.join(PERIODS)}"
        raise Invalid(reason, "budget_period")
    if spec.budget_nano is None:
        if spec.budget_period is not None:
            raise Invalid("a budget period has no effect without a budget", "budget_period")
    elif not 0 <= spec.budget_nano <= MAX_BUDGET_NANO:
        raise Invalid("a budget is between $0 and $1,000,000,000", "budget_nano")
