"""Checks of what a target sets over its provider, and of changes to request bodies, which both can set.

A reason never contains a secret or an address.
"""

from collections.abc import Iterator, Sequence
from functools import cache, reduce
from json import dumps

from msgspec import structs

from streamweir.config.address import BUILT_IN, fault_of_base_url, fault_of_proxy
from streamweir.config.checks.header_check import check_headers
from streamweir.config.error import ConfigProblem, entry, member
from streamweir.config.model import Model, Provider, Target
from streamweir.pipeline.body_members import fault_of_drop, fault_of_member, leaves

_OF_ALIAS = frozenset({"provider", "model", "stage", "weight"})
"""The settings of an entry that are not the target's own."""
_SHOWN = (bool, int, float)


def check_target(target: Target, kind: str, where: str) -> Iterator[ConfigProblem]:
    """`kind`: of its provider."""
    yield from check_body_settings(target, where)
    if kind in BUILT_IN:
        for name in ("base_url", "proxy"):
            if getattr(target, name) is not None:
                yield ConfigProblem(f"{where}.{name}", f"does not apply to the kind {dumps(kind)}")
        return
    fault = fault_of_base_url(target.base_url, kind) if target.base_url is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.base_url", fault)
    fault = fault_of_proxy(target.proxy) if target.proxy is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.proxy", fault)
    yield from check_headers(target.headers, f"{where}.headers")


def check_body_settings(settings: Provider | Target, where: str) -> Iterator[ConfigProblem]:
    """`defaults`, `override` and `drop`: what must stay as it was when a request was admitted is refused."""
    for name, table in (("defaults", settings.defaults), ("override", settings.override)):
        for path, value in leaves(table):
            fault = fault_of_member(path, value)
            if fault is not None:
                yield ConfigProblem(reduce(member, path, f"{where}.{name}"), fault)
    for index, dropped in enumerate(settings.drop):
        fault = fault_of_drop(tuple(dropped.split(".")))
        if fault is not None:
            yield ConfigProblem(entry(f"{where}.drop", index), f"{dumps(dropped)} {fault}")


def check_contradictions(models: Sequence[Model]) -> Iterator[ConfigProblem]:
    """What an entry sets besides `stage` and `weight` belongs to the target, whatever name it is asked for by."""
    first: dict[tuple[str, str, str], tuple[str, object]] = {}
    for model in models:
        for index, target in enumerate(model.targets):
            at = entry(f"{member('models', model.id)}.targets", index)
            for name, value in own_settings(target).items():
                before, other = first.setdefault((target.provider, target.model, name), (at, value))
                if other == value:
                    continue
                is_shown = isinstance(value, _SHOWN) or name == "wire"
                reason = f"is {value}, but {other} in {before}" if is_shown else f"differs from {before}.{name}"
                yield ConfigProblem(f"{at}.{name}", f"{reason}, which is the same target")


def own_settings(target: Target) -> dict[str, object]:
    """What the entry sets of the target itself, over its provider."""
    settings = ((name, getattr(target, name), default) for name, default in _defaults())
    return {
        name: value
        for name, value, default in settings
        if value is not None and value != default and value not in ({}, ())
    }


@cache
def _defaults() -> list[tuple[str, object]]:
    return [(field.name, field.default) for field in structs.fields(Target) if field.name not in _OF_ALIAS]
