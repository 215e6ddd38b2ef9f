"""The price list: the format of a price file, and its validation.

A list is external data that decides about money and is matched against names that callers choose. So it is read into
exact types, with bounded amounts and rules of known and cheap kinds: a regular expression that could take long is
refused, like everything that is not understood. One line is one model, so that changes can be reviewed. Rates are
looked up in `policy.pricing.pricetable`.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from streamweir.policy.pricing.prices import TOKEN_RATES
from streamweir.wire import jsonio

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
"""Per million tokens."""
Id = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(min_length=1, max_length=256)]
Hour = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d\Z")]

MAX_RULE_DEPTH = 4
MAX_PATTERN_LENGTH = 128
_PATTERN_TOKEN = re.compile(r"\\.|\[[^\]]*\]|\(\?[:!]|\{\d{1,2}\}|[^\\\[\](){}*+?|]|(?P<odd>.)", re.DOTALL)


class InvalidPrices(ValueError):
    """The message has one line about what is wrong with a list."""


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which names match: exactly one member is set. Names and texts are in lower case."""

    equals: Text | None = None
    starts_with: Text | None = None
    ends_with: Text | None = None
    contains: Text | None = None
    regex: Text | None = None
    any_of: tuple["Rule", ...] | None = msgspec.field(default=None, name="or")
    all_of: tuple["Rule", ...] | None = msgspec.field(default=None, name="and")


class Step(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Another rate above this number of prompt tokens."""

    above: Annotated[int, Meta(ge=0, le=10**12)]
    rate: Dollars


class Stepped(Struct, frozen=True, forbid_unknown_fields=True):
    base: Dollars
    steps: tuple[Step, ...]


Amount = Dollars | Stepped


class Price(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """From a day on, between two times of every day (UTC), or always. Without input or output it is not a price."""

    since: date | None = None
    hours: tuple[Hour, Hour] | None = None
    service: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """Only in `services`: the service tier that has these rates instead of the standard ones."""
    input: Amount | None = None
    output: Amount | None = None
    cache_read: Amount | None = None
    cache_write: Amount | None = None
    cache_write_1h: Amount | None = None
    audio_input: Amount | None = None
    audio_output: Amount | None = None
    image_input: Amount | None = None
    image_output: Amount | None = None
    reasoning: Amount | None = None
    per_request: Dollars | None = None
    """In dollars, like the next."""
    per_search: Dollars | None = None


class Model(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    id: Id
    match: Rule | None = None
    """None: only its id matches."""
    context: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    prices: tuple[Price, ...] = ()
    """The last one that is in force counts, or the first if none is."""
    services: tuple[Price, ...] = ()


class Provider(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    fallback: tuple[Id, ...] = ()
    """Providers whose models it offers at their prices."""
    models: tuple[Model, ...] = ()
    """The first one that matches counts."""


class PriceList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}(\.[0-9a-f]{1,16})?\Z")]
    """The date of the data, and after a point a suffix for several lists of one day."""
    source: Annotated[str, Meta(max_length=1024)]
    licence: Annotated[str, Meta(max_length=4096)]
    providers: dict[Id, Provider]


class _Head(Struct, frozen=True):
    version: str


_read = msgspec.json.Decoder(PriceList).decode
_read_head = msgspec.json.Decoder(_Head).decode


def decode_list(data: bytes, *, is_trusted: bool = False) -> PriceList:
    """Raises `InvalidPrices`. The built-in list was checked before, so it need not be: that takes half of the time."""
    try:
        price_list = _read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise InvalidPrices(f"not a price list: {reason}") from None
    if not is_trusted:
        check_list(price_list)
    return price_list


def decode_version(data: bytes) -> str:
    """Reads only the version. Raises `InvalidPrices`."""
    try:
        return _read_head(data).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as reason:
        raise InvalidPrices(f"not a price list: {reason}") from None


def is_list(data: bytes) -> bool:
    """Whether it has the format of this list, valid or not."""
    try:
        decode_version(data)
    except InvalidPrices:
        return False
    return True


def encode_list(price_list: PriceList) -> bytes:
    """Deterministic: equal lists have equal bytes."""
    lines = [b"{"]
    for name in ("version", "source", "licence"):
        lines.append(b'"%s":%s,' % (name.encode(), jsonio.encode(getattr(price_list, name))))
    lines.append(b'"providers":{')
    last = max(price_list.providers, default="")
    for id, provider in sorted(price_list.providers.items()):
        fallback = b'"fallback":%s,' % jsonio.encode(provider.fallback) if provider.fallback else b""
        lines.append(b'%s:{%s"models":[' % (jsonio.encode(id), fallback))
        lines += [_line(model) + (b"," if model is not provider.models[-1] else b"") for model in provider.models]
        lines.append(b"]}" if id == last else b"]},")
    lines.append(b"}}")
    return b"\n".join(lines) + b"\n"


def check_list(price_list: PriceList) -> None:
    """Checks that types cannot express. Raises `InvalidPrices`."""
    try:
        date.fromisoformat(price_list.version[:10])
    except ValueError:
        raise InvalidPrices(f"{price_list.version} is no day") from None
    for id, provider in price_list.providers.items():
        for model in provider.models:
            where = f"{id}/{model.id}"
            if model.match is not None:
                _check_rule(model.match, where, 1)
            for price in (*model.prices, *model.services):
                _check_steps(price, where)
            if any(price.service is None for price in model.services) or any(price.service for price in model.prices):
                raise InvalidPrices(f"{where}: a price stands in the wrong place")


def is_safe_pattern(pattern: str) -> bool:
    """Whether a search is fast for any text: at most one repetition, of a single character."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return False
    choices = repetitions = 0
    before = ""
    for found in _PATTERN_TOKEN.finditer(pattern):
        part = found[0]
        if part in ("*", "+"):
            repetitions += 1
        elif part in ("?", "|"):
            choices += 1
        if (part in ("*", "+", "?") or part[0] == "{") and before in ("", ")", "*", "+", "?", "|"):
            return False
        if found["odd"] and part not in "()*+?|":
            return False
        before = part
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return repetitions <= 1 and choices <= 3


def amounts_of(price: Price) -> Iterator[tuple[str, Amount]]:
    for name in AMOUNTS:
        value = getattr(price, name)
        if value is not None:
            yield name, value


AMOUNTS = tuple(name for name in Price.__struct_fields__ if name in TOKEN_RATES)
"""The names of the amounts per million tokens."""


def _line(model: Model) -> bytes:
    return jsonio.encode(_plain(jsonio.to_members(model)))


def _plain(value: object) -> object:
    """Whole numbers without a decimal point."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_rule(rule: Rule, where: str, depth: int) -> None:
    members = [value for name in Rule.__struct_fields__ if (value := getattr(rule, name)) is not None]
    if len(members) != 1 or depth > MAX_RULE_DEPTH:
        raise InvalidPrices(f"{where}: a rule that is not understood")
    if rule.regex is not None and not is_safe_pattern(rule.regex):
        raise InvalidPrices(f"{where}: a regular expression that is not taken: {rule.regex!r}")
    for inner in (*(rule.any_of or ()), *(rule.all_of or ())):
        _check_rule(inner, where, depth + 1)


def _check_steps(price: Price, where: str) -> None:
    for name, amount in amounts_of(price):
        if isinstance(amount, Stepped):
            starts = [step.above for step in amount.steps]
            if starts != sorted(set(starts)):
                raise InvalidPrices(f"{where}: the steps of {name} are not in order")
