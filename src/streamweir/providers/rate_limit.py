"""What a provider's response headers say about its rate limits: how much is left, and when all of it is available.

    x-ratelimit-{limit,remaining,reset}-{requests,tokens}   OpenAI, Azure, Groq and other compatible servers
    anthropic-ratelimit-{requests,tokens,...}-{limit,remaining,reset}

A reset is a duration ("6m0s", "20ms"), a number of seconds, a Unix time in seconds or milliseconds, or an RFC 3339
time. A time is compared with the response's own `Date`, so that neither clock has to be right. All of this is a hint
from outside: a value that cannot be read is ignored, and every value is bounded. What follows from it is decided in
`policy.routing.quota`. Pure.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

MAX_RESET_S = 86_400.0
_MAX_LENGTH = 40
_COUNT = re.compile(r"[0-9]{1,12}")
_NUMBER = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,9})?")
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:d|h|ms|m|us|ns|s)){1,6}")
_PART = re.compile(r"([0-9.]+)(d|h|ms|m|us|ns|s)")
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_FIRST_UNIX_S, _FIRST_UNIX_MS = 1e9, 1e12
"""A smaller number is a duration in seconds."""


class Bucket(NamedTuple):
    """What is left of one limit of a provider. It refills continuously, and is full after `reset_s`."""

    remaining: int
    limit: int | None
    reset_s: float | None
    is_by_estimate: bool = True
    """It counts the estimated size of a request. False: it counts tokens as they are used, without cached ones, so a
    request of any size may fit as long as anything is left."""


class RateLimitReport(NamedTuple):
    requests: Bucket | None
    tokens: tuple[Bucket, ...] = ()


_OPENAI_TOKENS = ("tokens", "project-tokens")
_ANTHROPIC_TOKENS = ("tokens", "input-tokens", "output-tokens")


def read_rate_limits(headers: Mapping[str, str]) -> RateLimitReport | None:
    """None: the headers say nothing about what is left. Their names are in lower case."""
    if "x-ratelimit-remaining-requests" in headers or "x-ratelimit-remaining-tokens" in headers:
        report = _read_openai(headers)
    elif "anthropic-ratelimit-requests-remaining" in headers or "anthropic-ratelimit-tokens-remaining" in headers:
        report = _read_anthropic(headers)
    else:
        return None
    return report if report.requests is not None or report.tokens else None


def _read_openai(headers: Mapping[str, str]) -> RateLimitReport:
    def bucket(kind: str) -> Bucket | None:
        names = f"x-ratelimit-remaining-{kind}", f"x-ratelimit-limit-{kind}", f"x-ratelimit-reset-{kind}"
        return _bucket(headers, *names, is_by_estimate=True)

    found = [bucket(kind) for kind in _OPENAI_TOKENS]
    return RateLimitReport(bucket("requests"), tuple([each for each in found if each is not None]))


def _read_anthropic(headers: Mapping[str, str]) -> RateLimitReport:
    def bucket(kind: str) -> Bucket | None:
        start = f"anthropic-ratelimit-{kind}-"
        # Neither cached tokens nor `max_tokens` count there.
        return _bucket(headers, f"{start}remaining", f"{start}limit", f"{start}reset", is_by_estimate=False)

    found = [bucket(kind) for kind in _ANTHROPIC_TOKENS]
    return RateLimitReport(bucket("requests"), tuple([each for each in found if each is not None]))


def _bucket(
    headers: Mapping[str, str], remaining: str, limit: str, reset: str, *, is_by_estimate: bool
) -> Bucket | None:
    left = _count(headers.get(remaining, ""))
    if left is None:
        return None  # quirk: Azure sends -1 if it does not know
    return Bucket(left, _count(headers.get(limit, "")), _reset_s(headers.get(reset, ""), headers), is_by_estimate)


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _reset_s(text: str, headers: Mapping[str, str]) -> float | None:
    """The time until the reset, 0 if it has passed; None if that cannot be read."""
    if not 0 < len(text) <= _MAX_LENGTH:
        return None
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    elif _NUMBER.fullmatch(text):
        seconds = float(text)
        if seconds >= _FIRST_UNIX_S:
            at = seconds / 1000 if seconds >= _FIRST_UNIX_MS else seconds
            return _until(at, headers)
    else:
        try:
            moment = datetime.fromisoformat(text)
            return _until(moment.timestamp(), headers) if moment.tzinfo is not None else None
        except (ValueError, OverflowError):
            return None
    return min(seconds, MAX_RESET_S)


def _until(unix_s: float, headers: Mapping[str, str]) -> float | None:
    date = headers.get("date", "")
    if len(date) > _MAX_LENGTH:
        return None
    try:
        now = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(unix_s - now.timestamp(), 0.0), MAX_RESET_S) if now.tzinfo is not None else None
