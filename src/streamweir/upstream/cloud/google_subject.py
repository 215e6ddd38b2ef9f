"""The token of another identity, which Google exchanges for its own: workload and workforce identity federation.

It is in a file (Kubernetes writes and replaces one), or it is the answer to a GET: of the metadata server of another
cloud, or of a program beside the gateway.
"""

import asyncio

from streamweir.core.errors import ErrorReport, UpstreamError
from streamweir.upstream.cloud.google_file import ExternalAccount, FileFault, TokenFormat, read_file
from streamweir.upstream.credential import refused_by
from streamweir.upstream.fetch import fetch
from streamweir.wire import jsonio

_MAX_LENGTH = 32 * 1024


async def subject_token(account: ExternalAccount, *, timeout_s: float) -> str:
    """Raises `StreamweirError`."""
    source = account.credential_source
    if source.file is not None:
        try:
            data = await asyncio.to_thread(read_file, source.file)
        except FileFault as reason:
            error = refused_by(f"The file with the token for Google's workload identity cannot be used: {reason}.")
            error.report = ErrorReport(text=f"{source.file}: {reason}")
            raise error from None
        return _token_in(data, source.format)
    answer = await fetch(source.url or "", headers=tuple(source.headers.items()), timeout_s=timeout_s)
    if not answer.is_success:
        raise UpstreamError("upstream_bad_response", "The server with the token for Google's workload identity failed.")
    return _token_in(answer.body, source.format)


def _token_in(data: bytes, form: TokenFormat) -> str:
    token: object = None
    if form.type == "json":
        try:
            document = jsonio.decode(data)
        except jsonio.InvalidJson:
            document = None
        token = document.get(form.subject_token_field_name) if isinstance(document, dict) else None
    else:
        token = data.decode("utf-8", "replace").strip()
    if not isinstance(token, str) or not 0 < len(token) <= _MAX_LENGTH:
        raise refused_by("There is no token for Google's workload identity where its file says.")
    return token
