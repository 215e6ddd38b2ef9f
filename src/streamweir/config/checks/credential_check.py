"""Checks the keys of one provider: where they come from, and that each is there once.

A provider has one key (`api_key` or `api_key_file`), or several (`api_keys`), each with a name for logs and metrics. No
reason contains a key. Pure: files were read before (`config.file.key_file`).
"""

import re
from collections.abc import Iterator
from json import dumps

from streamweir.config.address import BUILT_IN
from streamweir.config.checks.header_check import is_valid_header_value
from streamweir.config.error import ConfigProblem, entry, member
from streamweir.config.model import Credential, Provider

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_SENDABLE = "contains a character that cannot be sent, such as a space or a line break"


def check_credentials(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    for name in ("api_key_file", "api_keys"):
        if provider.kind in BUILT_IN and getattr(provider, name):
            yield ConfigProblem(f"{where}.{name}", f"does not apply to the kind {dumps(provider.kind)}")
    one = "api_key_file" if provider.api_key_file is not None else "api_key"
    if provider.api_keys and (provider.api_key or provider.api_key_file is not None):
        yield ConfigProblem(f"{where}.{one}", "has no effect beside api_keys: put it into the list")
    if not _is_sendable(provider.api_key):
        yield ConfigProblem(f"{where}.{one}", _NOT_SENDABLE)
    first: dict[str, str] = {}
    owners: dict[str, str] = {}
    for index, credential in enumerate(provider.api_keys):
        at = entry(f"{where}.api_keys", index)
        if credential.name is not None:
            if not _NAME.fullmatch(credential.name):
                yield ConfigProblem(f"{at}.name", "must be letters, digits, dots, hyphens and underscores")
            owner = first.setdefault(credential.name, at)
            if owner != at:
                yield ConfigProblem(f"{at}.name", f"{dumps(credential.name)} is already used by {owner}")
        yield from _key(credential, member(f"{where}.api_keys", credential.name) if credential.name else at, owners)


def _key(credential: Credential, where: str, owners: dict[str, str]) -> Iterator[ConfigProblem]:
    """`owners`: the places of the keys before it."""
    at = f"{where}.{'key' if credential.file is None else 'file'}"
    if not credential.key:
        if credential.file is None:  # a file without a key was reported when it was read
            yield ConfigProblem(where, "missing: expected key or file")
    elif not _is_sendable(credential.key):
        yield ConfigProblem(at, _NOT_SENDABLE)
    elif owners.setdefault(credential.key, at) != at:
        yield ConfigProblem(at, f"is the same key as {owners[credential.key]}")


def _is_sendable(key: str) -> bool:
    return is_valid_header_value(key) and " " not in key
