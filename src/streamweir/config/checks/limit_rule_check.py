"""Checks of the rules under [[limits]]. Keys and workspaces may be in the database, so their names are not checked."""

import re
from collections.abc import Iterator

from streamweir.config.error import ConfigProblem, member
from streamweir.config.model import Config, LimitRule
from streamweir.policy.limits.budget import nano_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_limit_rules(config: Config) -> Iterator[ConfigProblem]:
    for rule in config.limits:
        where = member("limits", rule.name)
        yield from _check(rule, where)
        if config.store.is_none:
            yield ConfigProblem(f"{where}.budget_usd", 'needs a database: set store.url to something other than "none"')
        if rule.per == "user" and config.store.end_user == "none":
            reason = 'needs end users: set store.end_user to "plain" or "hash"'
            yield ConfigProblem(f"{where}.per", reason)


def _check(rule: LimitRule, where: str) -> Iterator[ConfigProblem]:
    if not _NAME.fullmatch(rule.name):  # it is a part of the ids of accounts
        yield ConfigProblem(f"{where}.name", "must be letters, digits, dots, hyphens and underscores")
    elif rule.name in ("key", "workspace"):
        yield ConfigProblem(f"{where}.name", "choose another: refusals name the budget of a key or a workspace so")
    try:
        nano_of(rule.budget_usd)
    except ValueError as reason:
        yield ConfigProblem(f"{where}.budget_usd", str(reason))
    if rule.key is not None and rule.per == "workspace":
        yield ConfigProblem(f"{where}.key", 'does not apply to a rule per workspace: use per = "key"')
    if rule.anonymous is not None and rule.per != "user":
        yield ConfigProblem(f"{where}.anonymous", 'has no effect without per = "user"')
