"""Reaches each provider as requests do (`server.request.lookup.provider_check`), and compares their time with ours."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import NoReturn

from msgspec import structs

from streamweir.cli.commands.doctor.finding import Finding, fail, ok, warn
from streamweir.config.address import BUILT_IN
from streamweir.config.error import ConfigError
from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.secret import secrets_for
from streamweir.server.request.lookup.provider_check import Reached, reach_provider
from streamweir.server.request.runtime.config import open_providers
from streamweir.upstream.local import why_unavailable

_WARN_SKEW_S, _MAX_SKEW_S = 5.0, 60.0
"""Signatures and tokens of clouds are refused if the clock is wrong by some minutes."""


async def check_providers(config: Config, timeout_s: float) -> list[Finding]:
    """All at the same time."""
    if not config.providers:
        return [warn("providers", "there is none", "add one under [[providers]]")]
    found = await asyncio.gather(*(_check(config, each, timeout_s) for each in config.providers))
    skews = [skew for _, several in found for skew in several]
    return [*(finding for findings, _ in found for finding in findings), *_clock(skews)]


async def _check(config: Config, provider: ProviderConfig, timeout_s: float) -> tuple[list[Finding], list[float]]:
    """The findings, and how far the provider's clock is ahead, if it was told."""
    subject = f"provider {provider.name}"
    if provider.kind in BUILT_IN:
        reason = why_unavailable() if provider.kind == "local" else None
        return [fail(subject, reason, "install it") if reason else ok(subject, "it is built in")], []
    try:
        runtime = open_providers(structs.replace(config, providers=(provider,)), _open_local, None)[provider.name]
    except ConfigError as error:
        return [fail(subject, error.reason, "correct the configuration")], []
    try:
        reached = await reach_provider(runtime, secrets_for(config, provider.name), timeout_s)
    finally:
        await runtime.upstream.close()
    findings = [_finding(subject, each) for each in reached]
    return findings, [each.skew_s for each in reached if each.skew_s is not None]


def _finding(provider: str, found: Reached) -> Finding:
    subject = f"{provider}, key {found.credential}" if found.credential else provider
    return Finding(subject=subject, outcome=found.outcome, message=found.message, advice=found.advice)


def _open_local(_provider: ProviderConfig) -> NoReturn:
    raise AssertionError("what is built in has no connection")


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
