"""The answer of a token service: an access token and how long it lives, or a refusal.

A refusal of what was sent is `upstream_auth_failed`, with the service's code and what to do about it; anything else is
a failure of the service, which is asked again. Nothing of an answer but a short code is shown or logged: it may quote
what was sent.
"""

import re
import time
from base64 import b64encode
from datetime import datetime
from typing import Any

from streamweir.core.errors import ErrorReport, UpstreamError
from streamweir.upstream.credential import Lease, refused_by
from streamweir.upstream.fetch import Fetched
from streamweir.wire import jsonio

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
"""What can stand in a header."""
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_DEFAULT_LIFE_S = 300.0
_MAX_LIFE_S = 86_400.0 * 366


def token_in(
    answer: Fetched, service: str, advice: str, *, names: tuple[str, str] = ("access_token", "expires_in")
) -> Lease[str]:
    """`service` begins a sentence; `advice` is what to do if it refuses. `names`: of the token, and of its life in
    seconds or its end as a date. Raises `UpstreamError`."""
    document = _document(answer)
    if not answer.is_success:
        raise _failure(answer, document, service, advice)
    token, life = document.get(names[0]), document.get(names[1])
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise UpstreamError("upstream_bad_response", f"{service} sent an answer without a token.")
    return Lease(value=token, lives_s=_life_s(life))


def basic_header(name: str, secret: str) -> tuple[str, str]:
    return "authorization", "Basic " + b64encode(f"{name}:{secret}".encode()).decode()


def _document(answer: Fetched) -> dict[str, Any]:
    try:
        document = jsonio.decode(answer.body)
    except jsonio.InvalidJson:
        return {}
    return document if isinstance(document, dict) else {}


def _life_s(life: object) -> float:
    if isinstance(life, str):
        try:
            seconds = float(life) if life.isdecimal() else datetime.fromisoformat(life).timestamp() - time.time()
        except (ValueError, OverflowError):
            return _DEFAULT_LIFE_S
        return min(seconds, _MAX_LIFE_S)
    if isinstance(life, bool) or not isinstance(life, int | float):
        return _DEFAULT_LIFE_S
    return float(max(min(life, _MAX_LIFE_S), 0))  # in this order: a number of many digits is no float


def _failure(answer: Fetched, document: dict[str, Any], service: str, advice: str) -> UpstreamError:
    status, code = answer.status, _code_in(document)
    if status in (400, 401, 403, 404):
        error = refused_by(f"{service} gave no token{f' ({code})' if code else ''}. {advice}")
    elif status == 429 or status == 503:
        error = UpstreamError("upstream_overloaded", f"{service} is overloaded.")
    elif status >= 500:
        error = UpstreamError("upstream_server_error", f"{service} failed.")
    else:
        error = UpstreamError("upstream_bad_response", f"{service} sent an answer that cannot be used.")
    error.report = ErrorReport(status=status, code=code)
    return error


def _code_in(document: dict[str, Any]) -> str | None:
    """`{"error": "invalid_grant"}`, or `{"error": {"status": "PERMISSION_DENIED"}}`."""
    code = document.get("error")
    if isinstance(code, dict):
        code = code.get("status")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
