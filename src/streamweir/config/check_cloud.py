"""Checks of the settings of clouds: where a provider is, and how the gateway authorizes itself there.

A reason never contains a secret or an address.
"""

import re
from collections.abc import Iterator
from json import dumps

from streamweir.config.error import ConfigProblem
from streamweir.config.model import Provider

NAMED_BY_PLACE = ("bedrock", "bedrock-mantle", "vertex")
"""Kinds whose address follows from a setting, which is missing if they have none."""

_REGION = re.compile(r"[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}")


def check_cloud(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    if provider.kind in ("bedrock", "bedrock-mantle"):
        yield from _check_bedrock(provider, where)


def _check_bedrock(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    has_key = any(each.key for each in provider.credentials)
    is_signed = not has_key and not any(name.lower() == "authorization" for name in provider.headers)
    if provider.region is None:
        if provider.base_url is None or is_signed:
            reason = f"missing: the kind {dumps(provider.kind)} needs the region, such as eu-central-1"
            yield ConfigProblem(f"{where}.region", reason)
    elif not _REGION.fullmatch(provider.region):
        yield ConfigProblem(f"{where}.region", "expected the name of a region such as eu-central-1")
    if provider.aws is None:
        return
    if has_key:
        yield ConfigProblem(f"{where}.aws", "has no effect beside a key: requests are signed, or sent with a key")
    has_id, has_secret = provider.aws.access_key_id is not None, bool(provider.aws.secret_access_key)
    if has_id != has_secret:
        missing = "secret_access_key" if has_id else "access_key_id"
        yield ConfigProblem(f"{where}.aws.{missing}", "missing: an access key has an id and a secret")
    elif provider.aws.source == "static" and not has_id:
        yield ConfigProblem(f"{where}.aws.access_key_id", 'missing: the source "static" needs the access key')
