"""A plausible value for a JSON schema: the arguments of a simulated call, a simulated JSON answer.

The schema comes from the caller and may be invalid: what is not supported is ignored, and the work and the size of the
value are limited, also for a very large or recursive schema. The same schema and ordinal always give the same value;
another ordinal gives another value, if the schema allows several.
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, floor, isfinite
from typing import Any

from streamweir.wire import jsonio

MAX_DEPTH = 8
MAX_WORK = 2000
"""In values; eight members that are read, or 64 bytes that are written, count as one value."""
_MIN_WORK = 50
_MAX_ITEMS = 16
_MAX_TEXT_LENGTH = 1000
_DEPTH_OF_OPTIONAL = 3
"""Optional members are left out below this depth."""

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


def sample(schema: object, ordinal: int = 0, count: int = 1) -> Any:
    """The value. `count`: the number of values in one answer, which share the limit of work."""
    return _Sampler(schema, ordinal, max(_MIN_WORK, MAX_WORK // count)).value(schema, "", 0)


class _Sampler:
    def __init__(self, root: object, ordinal: int, max_work: int) -> None:
        self._root = root
        self._ordinal = ordinal
        self._remaining = max_work
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
        if self._remaining < 0 or depth > MAX_DEPTH:
            return None
        if "const" in schema:
            return self._schema_value(schema["const"])
        for member in ("enum", "examples"):
            listed = schema.get(member)
            if isinstance(listed, list) and listed:
                return self._schema_value(listed[self._ordinal % len(listed)])
        maker = self._makers.get(_type_of(schema))
        return maker(schema, name, depth) if maker is not None else None

    def _schema_value(self, value: Any) -> Any:
        """A value that the schema contains. It may be large, and used many times."""
        self._remaining -= len(jsonio.encode(value)) // 64
        return value

    def _count_work(self, schema: Schema) -> None:
        size = len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list | Mapping))
        self._remaining -= 1 + size // 8

    def _resolved(self, schema: object) -> Schema:
        """The schema with references followed, alternatives chosen and `allOf` merged."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping) or self._remaining < 0:
                break
            self._count_work(schema)
            if "$ref" in schema:
                schema = self._follow_reference(schema["$ref"])
            elif alternatives := _objects(schema.get("anyOf")) or _objects(schema.get("oneOf")):
                chosen = next((inner for inner in alternatives if inner.get("type") != "null"), alternatives[0])
                schema = {**{name: schema[name] for name in schema.keys() - {"anyOf", "oneOf"}}, **chosen}
            elif parts := _objects(schema.get("allOf")):
                merged = {name: schema[name] for name in schema.keys() - {"allOf"}}
                for part in parts[:_MAX_ITEMS]:
                    self._merge(merged, self._follow_reference(part["$ref"]) if "$ref" in part else part)
                schema = merged
            else:
                return schema
        return {}

    def _merge(self, merged: dict[str, Any], part: object) -> None:
        """Merges a further schema of `allOf`."""
        if not isinstance(part, Mapping) or self._remaining < 0:
            return
        self._count_work(part)
        for name, value in part.items():
            before = merged.get(name)
            if name == "properties" and isinstance(before, Mapping) and isinstance(value, Mapping):
                value = {**before, **value}
            elif name == "required" and isinstance(before, list) and isinstance(value, list):
                value = before + value
            merged[name] = value

    def _follow_reference(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = self._root
        for name in reference.removeprefix("#").split("/", MAX_DEPTH)[1:]:
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found

    def _object(self, schema: Schema, _name: str, depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        members: dict[str, Any] = {}
        if not isinstance(properties, Mapping):
            return members
        is_needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        for name, inner in properties.items():
            if self._remaining < 0:
                break
            if name in is_needed or depth < _DEPTH_OF_OPTIONAL:
                self._remaining -= len(name) // 64
                members[name] = self.value(inner, name, depth + 1)
        return members

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        fixed = schema.get("prefixItems")
        if isinstance(fixed, list) and fixed:
            return [self.value(inner, name, depth + 1) for inner in fixed[:_MAX_ITEMS]]
        count = min(max(1, ceil(_bound(schema, "minItems") or 1)), _MAX_ITEMS)
        if _bound(schema, "maxItems") == 0:
            return []
        return [self.value(schema.get("items"), name.removesuffix("s"), depth + 1) for _ in range(count)]

    def _string(self, schema: Schema, name: str, _depth: int) -> str:
        known = [_WORDS_OF_NAME[word] for word in map(str.lower, _NAME_PART.findall(name)) if word in _WORDS_OF_NAME]
        words = _WORDS_OF_FORMAT.get(str(schema.get("format"))) or (known[0] if known else _WORDS)
        text = words[self._ordinal % len(words)]
        least, most = _bound(schema, "minLength") or 0, _bound(schema, "maxLength")
        text = text.ljust(min(ceil(least), _MAX_TEXT_LENGTH), "x")
        return str(self._schema_value(text if most is None or most < 0 else text[: ceil(most)]))

    def _integer(self, schema: Schema, name: str, depth: int) -> int:
        value, most = self._number(schema, name, depth), _bound(schema, "maximum")
        return ceil(value) if most is None or ceil(value) <= most else floor(value)

    def _number(self, schema: Schema, _name: str, _depth: int) -> float:
        """The smallest allowed number, at least 1 if allowed, plus the ordinal."""
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
    """The numeric value of a keyword such as `minimum`. None if it is absent or invalid."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        return None
    return value
