"""Values for JSON schemas: they fit where the schema is sound, and are bounded whatever it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.upstream.script.sample import MAX_WORK, sample

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
            "required": ["left", "right"],
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "example"),
        ({"type": "string", "format": "date"}, "2026-01-15"),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "maxLength": 3}, "exa"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 10}, 10),
        ({"type": "integer", "exclusiveMinimum": 10}, 11),
        ({"type": "integer", "maximum": -4}, -4),
        ({"type": "integer", "maximum": 0.5}, 0),
        ({"type": "integer", "minimum": 10, "multipleOf": 7}, 14),
        ({"type": "number", "minimum": 0, "exclusiveMaximum": 0.5}, 0.25),
        ({"type": "number", "exclusiveMaximum": 0}, -1),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"const": {"a": 1}}, {"a": 1}),
        ({"enum": ["red", "green"]}, "red"),
        ({"type": "string", "examples": ["blue"]}, "blue"),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "maxItems": 0}, []),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, [1, True]),
        ({"items": {"type": "integer"}}, [1]),
        ({"properties": {"city": {"type": "string"}}}, {"city": "Paris"}),
        ({"type": "object", "properties": {"homeCity": {"type": "string"}}}, {"homeCity": "Paris"}),
        ({"type": "object", "properties": {"cities": {"type": "array"}}}, {"cities": ["example"]}),
        ({"type": "object"}, {}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"type": "null"}]}, None),
        (
            {"allOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]},
            {"a": 1, "b": 2},
        ),
        ({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"enum": [5]}}}, 5),
        ({"allOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"const": 2}}}]}, {"b": 2}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 3}}}, 3),
        ({}, "example"),
    ],
)
def test_the_value_fits_the_schema(schema: dict[str, Any], value: Any) -> None:
    assert sample(schema) == value


def test_another_ordinal_gives_another_value() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["celsius", "kelvin"]},
            "days": {"type": "integer"},
            "is_metric": {"type": "boolean"},
        },
    }
    assert sample(schema, 0) == {"city": "Paris", "unit": "celsius", "days": 1, "is_metric": True}
    assert sample(schema, 1) == {"city": "Oslo", "unit": "kelvin", "days": 2, "is_metric": False}


def test_what_is_not_required_is_left_out_deep_inside() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(6):
        schema = {"type": "object", "properties": {"inner": schema}}
    assert sample(schema) == {"inner": {"inner": {"inner": {}}}}


def test_a_schema_that_refers_to_itself_has_a_bounded_value() -> None:
    assert json.dumps(sample(TREE)).count("left") < MAX_WORK


@pytest.mark.parametrize("large", [{"const": "x" * 10_000}, {"properties": {"x" * 10_000: {}}}])
def test_a_large_value_is_not_multiplied_by_references(large: dict[str, Any]) -> None:
    schema = {"properties": {str(i): {"$ref": "#/$defs/large"} for i in range(400)}, "$defs": {"large": large}}
    assert len(json.dumps(sample(schema))) < 200_000
    assert len(json.dumps(sample(schema, 0, 100))) < 20_000


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        {"$ref": "#"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "https://example.org/schema"},
        {"$ref": 7},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"type": 7},
        {"type": []},
        {"type": "colour"},
        {"enum": []},
        {"type": "integer", "minimum": "ten", "maximum": True, "multipleOf": -1},
        {"type": "number", "multipleOf": 5e-324},
        {"type": "number", "minimum": 10**400},
        {"type": "string", "minLength": 10**9, "maxLength": -1},
        {"type": "array", "minItems": 10**9},
        {"type": "object", "properties": ["a"], "required": "a"},
        {"type": "object", "properties": {"a": 1}, "required": [["a"]]},
        {"allOf": [{"allOf": [{"type": "object"}]}, 1]},
        {"allOf": [{"$ref": "#"}] * 1000, "required": ["a"] * 1000},
        {"properties": {"a": {"$ref": "#"}}, "required": ["a"] * 1000, "allOf": [{"$ref": "#"}] * 20},
    ],
)
def test_an_invalid_schema_is_harmless(schema: object) -> None:
    assert len(json.dumps(sample(schema))) < 10_000


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["object", "array", "#/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "enum",
                    "anyOf",
                    "allOf",
                    "$ref",
                    "minimum",
                    "maximum",
                    "multipleOf",
                    "required",
                    "minItems",
                    "maxLength",
                    "minLength",
                    "prefixItems",
                    "exclusiveMaximum",
                    "format",
                    "a",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(VALUES, st.integers(0, 20))
def test_no_schema_breaks_it(schema: object, ordinal: int) -> None:
    json.dumps(sample(schema, ordinal))
