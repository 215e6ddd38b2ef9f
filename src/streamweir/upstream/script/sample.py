"""A plausible value for a JSON schema: the arguments of a simulated call, a simulated JSON answer.

The schema is the caller's, so nothing in it is relied on: what is not understood is ignored, and
both the work and the size of the value are bounded, however large the schema is and however it
refers to itself. The same schema and ordinal always give the same value; another ordinal gives
another, where there is a choice.
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, floor, isfinite
from typing import Any

from streamweir.wire import jsonio

DEEPEST = 8
MOST_WORK = 2000
"""In values, of which eight members that are looked at, or 64 bytes that are given out, count as one."""
_LEAST_WORK = 50
_MOST_ITEMS = 16
_LONGEST_TEXT = 1000
_DEPTH_OF_OPTIONAL = 3
"""Members that are not required are left out below this depth."""

_WORDS_OF_NAME = {
    "city": ("Paris", "Oslo", "Nairobi", "Lima"),
    "country": ("France", "Norway", "Kenya", "Peru"),
    "date": ("2026-01-15", "2026-02-16"),
    "email": ("ada@example.org", "grace@example.org"),
    "language": ("en", "fr"),
    "location": ("Paris, France", "Oslo, Norway", "Nairobi, Kenya", "Lima, Peru"),
    "name": ("Ada", "Grace"),
    "path": ("notes.txt", "readme.md"),
    "query": ("weather in Paris", "weather in Oslo"),
    "title": ("Example title", "Another title"),
    "unit": ("celsius", "fahrenheit"),
    "url": ("https://example.org/", "https://example.com/"),
}
_WORDS_OF_FORMAT = {
    "date": _WORDS_OF_NAME["date"],
    "date-time": ("2026-01-15T12:00:00Z", "2026-02-16T12:00:00Z"),
    "email": _WORDS_OF_NAME["email"],
    "hostname": ("example.org", "example.com"),
    "ipv4": ("192.0.2.1", "192.0.2.2"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "time": ("12:00:00Z", "13:00:00Z"),
    "uri": _WORDS_OF_NAME["url"],
    "uuid": ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"),
}
_WORDS = ("example", "another example")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+")

Schema = Mapping[str, Any]


def sample(schema: object, ordinal: int = 0, among: int = 1) -> Any:
    """The value. `among` how many of one answer it is made: they share the work."""
    return _Sampler(schema, ordinal, max(_LEAST_WORK, MOST_WORK // among)).value(schema, "", 0)


class _Sampler:
    def __init__(self, root: object, ordinal: int, most_work: int) -> None:
        self._root = root
        self._ordinal = ordinal
        self._left = most_work
        self._makers: dict[str, Callable[[Schema, str, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda *_: ordinal % 2 == 0,
        }

    def value(self, schema: object, name: str, depth: int) -> Any:
        schema = self._resolved(schema)
        if self._left < 0 or depth > DEEPEST:
            return None
        if "const" in schema:
            return self._given(schema["const"])
        for member in ("enum", "examples"):
            listed = schema.get(member)
            if isinstance(listed, list) and listed:
                return self._given(listed[self._ordinal % len(listed)])
        maker = self._makers.get(_type_of(schema))
        return maker(schema, name, depth) if maker is not None else None

    def _given(self, value: Any) -> Any:
        """A value of the schema's own. It may be large, and referred to from many places."""
        self._left -= len(jsonio.encode(value)) // 64
        return value

    def _spend(self, schema: Schema) -> None:
        looked_at = len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list | Mapping))
        self._left -= 1 + looked_at // 8

    def _resolved(self, schema: object) -> Schema:
        """The schema with references followed, alternatives chosen and parts put together."""
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping) or self._left < 0:
                break
            self._spend(schema)
            if "$ref" in schema:
                schema = self._referred(schema["$ref"])
            elif alternatives := _objects(schema.get("anyOf")) or _objects(schema.get("oneOf")):
                chosen = next((inner for inner in alternatives if inner.get("type") != "null"), alternatives[0])
                schema = {**{name: schema[name] for name in schema.keys() - {"anyOf", "oneOf"}}, **chosen}
            elif parts := _objects(schema.get("allOf")):
                merged = {name: schema[name] for name in schema.keys() - {"allOf"}}
                for part in parts[:_MOST_ITEMS]:
                    self._merge(merged, self._referred(part["$ref"]) if "$ref" in part else part)
                schema = merged
            else:
                return schema
        return {}

    def _merge(self, merged: dict[str, Any], part: object) -> None:
        """A schema that holds as well."""
        if not isinstance(part, Mapping) or self._left < 0:
            return
        self._spend(part)
        for name, value in part.items():
            before = merged.get(name)
            if name == "properties" and isinstance(before, Mapping) and isinstance(value, Mapping):
                value = {**before, **value}
            elif name == "required" and isinstance(before, list) and isinstance(value, list):
                value = before + value
            merged[name] = value

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = self._root
        for name in reference.removeprefix("#").split("/", DEEPEST)[1:]:
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found

    def _object(self, schema: Schema, _name: str, depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        members: dict[str, Any] = {}
        if not isinstance(properties, Mapping):
            return members
        is_needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        for name, inner in properties.items():
            if self._left < 0:
                break
            if name in is_needed or depth < _DEPTH_OF_OPTIONAL:
                self._left -= len(name) // 64
                members[name] = self.value(inner, name, depth + 1)
        return members

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        fixed = schema.get("prefixItems")
        if isinstance(fixed, list) and fixed:
            return [self.value(inner, name, depth + 1) for inner in fixed[:_MOST_ITEMS]]
        count = min(max(1, ceil(_bound(schema, "minItems") or 1)), _MOST_ITEMS)
        if _bound(schema, "maxItems") == 0:
            return []
        return [self.value(schema.get("items"), name.removesuffix("s"), depth + 1) for _ in range(count)]

    def _string(self, schema: Schema, name: str, _depth: int) -> str:
        known = [_WORDS_OF_NAME[word] for word in map(str.lower, _NAME_PART.findall(name)) if word in _WORDS_OF_NAME]
        words = _WORDS_OF_FORMAT.get(str(schema.get("format"))) or (known[0] if known else _WORDS)
        text = words[self._ordinal % len(words)]
        least, most = _bound(schema, "minLength") or 0, _bound(schema, "maxLength")
        text = text.ljust(min(ceil(least), _LONGEST_TEXT), "x")
        return str(self._given(text if most is None or most < 0 else text[: ceil(most)]))

    def _integer(self, schema: Schema, name: str, depth: int) -> int:
        value, most = self._number(schema, name, depth), _bound(schema, "maximum")
        return ceil(value) if most is None or ceil(value) <= most else floor(value)

    def _number(self, schema: Schema, _name: str, _depth: int) -> float:
        """The smallest that is allowed, but 1 and more where it may be: counted up by the ordinal."""
        least, above = _bound(schema, "minimum"), _bound(schema, "exclusiveMinimum")
        most, below = _bound(schema, "maximum"), _bound(schema, "exclusiveMaximum")
        lowest = least if above is None else above + 1
        highest = most if below is None else below - 1
        if below is not None and least is not None and least > below - 1:
            highest = (least + below) / 2
        value = 1 + self._ordinal if lowest is None else max(1 + self._ordinal, lowest)
        step = _bound(schema, "multipleOf") or 1
        if step > 0 and isfinite(value / step):
            value = ceil(value / step) * step
        return value if highest is None or value <= highest else highest


def _type_of(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((word for word in kind if word != "null"), None)
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _objects(value: object) -> list[Schema]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _bound(schema: Schema, name: str) -> int | float | None:
    """A number that a schema gives as a bound, where it is one."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        return None
    return value
