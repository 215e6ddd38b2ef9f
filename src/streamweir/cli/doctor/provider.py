"""Reaches each provider as requests do: name, TLS, proxy, and each of its credentials, by a call that is never billed.

The call is the list of models: `GET /models` beside the paths of requests, or the list of the cloud
(`providers.model_listing`). Its headers are those of a request. The answers also tell the providers' time.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence, Set
from email.utils import parsedate_to_datetime
from typing import NoReturn

from msgspec import Struct, structs

from streamweir.cli.doctor.finding import Finding, fail, ok, warn
from streamweir.config.address import BUILT_IN
from streamweir.config.error import ConfigError
from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.secret import secrets_for
from streamweir.core.errors import StreamweirError, hide_secrets
from streamweir.frontends.table import FRONTENDS
from streamweir.providers.base import UpstreamRequest
from streamweir.providers.model_listing import listing_of
from streamweir.server.request.lookup.model_refresh import read_names
from streamweir.server.request.runtime.config import ProviderRuntime, open_providers
from streamweir.upstream.fetch import Fetched, read_whole
from streamweir.upstream.local import why_unavailable

_MAX_ERROR_BYTES = 8192
_MAX_BYTES = 16 * 1024 * 1024
_WARN_SKEW_S, _MAX_SKEW_S = 5.0, 60.0
"""Signatures and tokens of clouds are refused if the clock is wrong by some minutes."""
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


class Reached(Struct, frozen=True):
    """The findings, and how far the provider's clock is ahead, if it was told."""

    findings: list[Finding]
    skews_s: list[float]


async def check_providers(config: Config, timeout_s: float) -> list[Finding]:
    """All at the same time."""
    if not config.providers:
        return [warn("providers", "there is none", "add one under [[providers]]")]
    found = await asyncio.gather(*(_check(config, each, timeout_s) for each in config.providers))
    skews = [skew for each in found for skew in each.skews_s]
    return [*(finding for each in found for finding in each.findings), *_clock(skews)]


async def _check(config: Config, provider: ProviderConfig, timeout_s: float) -> Reached:
    subject = f"provider {provider.name}"
    if provider.kind in BUILT_IN:
        reason = why_unavailable() if provider.kind == "local" else None
        return Reached([fail(subject, reason, "install it") if reason else ok(subject, "it is built in")], [])
    try:
        runtime = open_providers(structs.replace(config, providers=(provider,)), _open_local, None)[provider.name]
    except ConfigError as error:
        return Reached([fail(subject, error.reason, "correct the configuration")], [])
    try:
        secrets = secrets_for(config, provider.name)
        keys = list(runtime.secrets.items()) or [("", "")]
        reached = [await _try(runtime, name, key, secrets, timeout_s) for name, key in keys]
    finally:
        await runtime.upstream.close()
    return Reached([each for each, _ in reached], [skew for _, skew in reached if skew is not None])


async def _try(
    runtime: ProviderRuntime, name: str, key: str, secrets: Set[str], timeout_s: float
) -> tuple[Finding, float | None]:
    """One credential."""
    subject = f"provider {runtime.name}" + (f", key {name}" if name else "")
    began = time.time()
    try:
        listing = listing_of(runtime.config.kind)
        if listing is not None:
            async with asyncio.timeout(timeout_s):
                names = await read_names(structs.replace(runtime, secrets={name: key}), listing)
            return ok(subject, f"reached and authorized: {len(names)} models, {_since(began)}"), None
        answer = await read_whole(
            runtime.upstream, _list_models(runtime, key), timeout_s=timeout_s, max_bytes=_MAX_BYTES
        )
    except TimeoutError:
        return fail(subject, f"no answer within {timeout_s:g} s", _ADVICE["upstream_timeout"]), None
    except StreamweirError as error:
        return _failed(subject, runtime, secrets, error), None
    skew_s = _skew_s(answer, (began + time.time()) / 2)
    if answer.is_success:
        how = "the key is accepted" if key else "no key is needed"
        return ok(subject, f"reached, {how}, {_since(began)}"), skew_s
    refusal = runtime.first.provider.read_error(answer.status, answer.headers, answer.body[:_MAX_ERROR_BYTES])
    if answer.status in (400, 404, 405, 501) and refusal.code != "upstream_auth_failed":
        message = f"reached, but it has no list of models (status {answer.status}): the key was not checked"
        return warn(subject, message, "send a request to it, if you want to be sure"), skew_s
    return _failed(subject, runtime, secrets, refusal, answer.status), skew_s


def _open_local(_provider: ProviderConfig) -> NoReturn:
    raise AssertionError("what is built in has no connection")


def _list_models(runtime: ProviderRuntime, key: str) -> UpstreamRequest:
    """With the headers of a request."""
    chat = FRONTENDS.by_name["openai"].parse(_REQUEST, {})
    like = runtime.first.provider.build_request(chat, structs.replace(runtime.target, model="m", api_key=key))
    headers = tuple((name, value) for name, value in like.headers if name not in ("content-type", "accept"))
    return UpstreamRequest(method="GET", path="/models", headers=(*headers, ("accept", "application/json")), body=b"")


def _failed(
    subject: str, runtime: ProviderRuntime, secrets: Set[str], error: StreamweirError, status: int | None = None
) -> Finding:
    hide_secrets(error, secrets)
    message = error.message if status is None else f"status {status}: {error.message}"
    if error.code == "upstream_rate_limited":
        return warn(subject, f"reached, but it limits requests: {message}", "wait, or add a key")
    advice = _ADVICE.get(error.code, _ANY_ADVICE)
    if error.code == "upstream_auth_failed" and runtime.config.list_models is False:
        return warn(subject, f"{message} (it need not list its models)", advice)
    return fail(subject, message, advice)


def _skew_s(answer: Fetched, local_s: float) -> float | None:
    """The header is in whole seconds."""
    try:
        at = parsedate_to_datetime(answer.headers["date"]).timestamp() + 0.5
    except (KeyError, ValueError, OverflowError):
        return None
    return at - local_s


def _clock(skews_s: Sequence[float]) -> Iterator[Finding]:
    """By the median: the clock of one provider may be wrong."""
    if not skews_s:
        return
    skew_s = sorted(skews_s)[len(skews_s) // 2]
    message = f"{abs(skew_s):.0f} s {'behind' if skew_s > 0 else 'ahead of'} the providers' time"
    if abs(skew_s) < _WARN_SKEW_S:
        yield ok("clock", "as that of the providers")
    elif abs(skew_s) < _MAX_SKEW_S:
        yield warn("clock", message, "set the clock: start chrony, or systemd-timesyncd")
    else:
        yield fail("clock", message, "set the clock: signatures and certificates are refused otherwise")


def _since(began: float) -> str:
    return f"{(time.time() - began) * 1000:.0f} ms"
