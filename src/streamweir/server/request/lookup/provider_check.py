"""Reaches a provider as requests do: name, TLS, proxy, and each of its credentials, by a call that is never billed.

    ProviderRuntime -> one call for each credential -> what it found, in a sentence without secrets, and what to do

The call is the list of models: `GET /models` beside the paths of requests, or the list of the cloud
(`providers.model_listing`). Its headers are those of a request. Nothing is changed by it: neither the health of targets
nor the lists of models. `streamweir doctor` and the admin API use it.
"""

import asyncio
import time
from collections.abc import Mapping, Set
from itertools import islice
from typing import Literal

from msgspec import Struct, structs

from streamweir.core.errors import StreamweirError, hide_secrets
from streamweir.frontends.table import FRONTENDS
from streamweir.providers.base import UpstreamRequest
from streamweir.providers.model_listing import listing_of
from streamweir.server.request.lookup.model_refresh import read_names
from streamweir.server.request.runtime.config import ProviderRuntime
from streamweir.upstream.fetch import read_whole

ReachOutcome = Literal["ok", "warn", "fail"]

_MAX_ERROR_BYTES = 8192
_MAX_BYTES = 16 * 1024 * 1024
_AT_ONCE = 4
_REQUEST = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
_ADVICE = {
    "upstream_dns_failed": "check base_url, and the name server of this machine",
    "upstream_tls_failed": "check base_url, the time of this machine, and ca_file if it has its own authority",
    "upstream_connect_failed": "check base_url, proxy, and the firewall",
    "upstream_timeout": "check base_url, proxy, and the firewall",
    "upstream_auth_failed": "check the key, and where it comes from",
    "upstream_quota_exhausted": "the account has no credit: add some, or use another key",
}
_ANY_ADVICE = "look at the provider's status page, and try again"


class Reached(Struct, frozen=True, kw_only=True):
    """What was found with one credential."""

    credential: str
    """Its name. Empty: the provider has one, or needs none."""
    outcome: ReachOutcome
    message: str
    advice: str | None = None
    """What to do. None: nothing."""
    skew_s: float | None = None
    """How far the provider's clock is ahead, if it was told."""


async def reach_provider(
    runtime: ProviderRuntime, secrets: Set[str], timeout_s: float, *, max_keys: int | None = None
) -> list[Reached]:
    """With each of its credentials, some at a time; none takes longer than `timeout_s`. `secrets`: what no message may
    quote. `max_keys`: so many of them; None: all."""
    some = asyncio.Semaphore(_AT_ONCE)

    async def reach(name: str, key: str) -> Reached:
        async with some:
            return await _try(runtime, name, key, secrets, timeout_s)

    keys: Mapping[str, str] = runtime.secrets or {"": ""}
    return await asyncio.gather(*(reach(name, key) for name, key in islice(keys.items(), max_keys)))


async def _try(runtime: ProviderRuntime, name: str, key: str, secrets: Set[str], timeout_s: float) -> Reached:
    began, sent_at = time.monotonic(), time.time()
    found = Reached(credential=name, outcome="ok", message="")
    try:
        listing = listing_of(runtime.config.kind)
        if listing is not None:
            async with asyncio.timeout(timeout_s):
                names = await read_names(structs.replace(runtime, secrets={name: key}), listing)
            return structs.replace(found, message=f"reached and authorized: {len(names)} models, {_since(began)}")
        answer = await read_whole(
            runtime.upstream, _list_models(runtime, key), timeout_s=timeout_s, max_bytes=_MAX_BYTES
        )
    except TimeoutError:
        message = f"no answer within {timeout_s:g} s"
        return structs.replace(found, outcome="fail", message=message, advice=_ADVICE["upstream_timeout"])
    except StreamweirError as error:
        return _failed(found, runtime, secrets, error)
    found = structs.replace(found, skew_s=answer.skew_s((sent_at + time.time()) / 2))
    if answer.is_success:
        how = "the key is accepted" if key else "no key is needed"
        return structs.replace(found, message=f"reached, {how}, {_since(began)}")
    refusal = runtime.first.provider.read_error(answer.status, answer.headers, answer.body[:_MAX_ERROR_BYTES])
    if answer.status in (400, 404, 405, 501) and refusal.code != "upstream_auth_failed":
        message = f"reached, but it has no list of models (status {answer.status}): the key was not checked"
        return structs.replace(
            found, outcome="warn", message=message, advice="send a request to it, if you want to be sure"
        )
    return _failed(found, runtime, secrets, refusal, answer.status)


def _list_models(runtime: ProviderRuntime, key: str) -> UpstreamRequest:
    """With the headers of a request."""
    chat = FRONTENDS.by_name["openai"].parse(_REQUEST, {})
    like = runtime.first.provider.build_request(chat, structs.replace(runtime.target, model="m", api_key=key))
    headers = tuple((name, value) for name, value in like.headers if name not in ("content-type", "accept"))
    return UpstreamRequest(method="GET", path="/models", headers=(*headers, ("accept", "application/json")), body=b"")


def _failed(
    found: Reached, runtime: ProviderRuntime, secrets: Set[str], error: StreamweirError, status: int | None = None
) -> Reached:
    hide_secrets(error, secrets)
    message = error.message if status is None else f"status {status}: {error.message}"
    if error.code == "upstream_rate_limited":
        message = f"reached, but it limits requests: {message}"
        return structs.replace(found, outcome="warn", message=message, advice="wait, or add a key")
    advice = _ADVICE.get(error.code, _ANY_ADVICE)
    if error.code == "upstream_auth_failed" and runtime.config.list_models is False:
        message = f"{message} (it need not list its models)"
        return structs.replace(found, outcome="warn", message=message, advice=advice)
    return structs.replace(found, outcome="fail", message=message, advice=advice)


def _since(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:.0f} ms"
