"""The input of an AWS operation, as botocore's description of the service has it: an independent check of requests.

botocore's own validation leaves patterns, enumerations and upper bounds to the service. They are checked here.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel

OF_THE_PATH = "modelId"


@cache
def _input_of(service: str, operation: str) -> Any:
    description = Loader().load_service_model(service, "service-2")
    return ServiceModel(description).operation_model(operation).input_shape


def faults_of(service: str, operation: str, body: dict[str, Any]) -> list[str]:
    """What is wrong with a body; members of the path are not in it."""
    return list(_faults(_input_of(service, operation), {OF_THE_PATH: "x", **body}, ""))


def _faults(shape: Any, value: Any, path: str) -> Iterator[str]:
    kind, rules = shape.type_name, shape.metadata
    if kind == "structure" and getattr(shape, "is_document_type", False):
        return
    if kind == "structure":
        yield from _structure_faults(shape, value, path)
    elif kind == "list":
        yield from _size_faults(rules, len(value), path)
        for i, each in enumerate(value):
            yield from _faults(shape.member, each, f"{path}[{i}]")
    elif kind == "map":
        yield from _size_faults(rules, len(value), path)
        for name, each in value.items():
            yield from _faults(shape.key, name, f"{path}.{name}")
            yield from _faults(shape.value, each, f"{path}.{name}")
    elif kind == "string":
        if not isinstance(value, str):
            yield f"{path}: no text"
            return
        yield from _size_faults(rules, len(value), path)
        if "pattern" in rules and re.fullmatch(rules["pattern"], value) is None:
            yield f"{path}: {value!r} does not match {rules['pattern']}"
        if shape.enum and value not in shape.enum:
            yield f"{path}: {value!r} is none of {shape.enum}"
    elif kind == "blob":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError):
            yield f"{path}: no base64"
    elif kind in ("integer", "long", "float", "double"):
        is_number = isinstance(value, int if kind in ("integer", "long") else int | float) and value is not True
        yield from _size_faults(rules, value, path) if is_number else [f"{path}: no number"]
    elif kind == "boolean" and not isinstance(value, bool):
        yield f"{path}: neither true nor false"


def _structure_faults(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: no object"
        return
    if shape.metadata.get("union") and len(value) != 1:
        yield f"{path}: {len(value)} members of a union"
    for name in shape.metadata.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is missing"
    for name, each in value.items():
        if name in shape.members:
            yield from _faults(shape.members[name], each, f"{path}.{name}")
        else:
            yield f"{path}.{name}: is unknown"


def _size_faults(rules: dict[str, Any], size: float, path: str) -> Iterator[str]:
    if not rules.get("min", size) <= size <= rules.get("max", size):
        yield f"{path}: {size} is not within {rules.get('min')} and {rules.get('max')}"
