"""The token of another identity, which Google exchanges for its own: workload and workforce identity federation.

It is in a file (Kubernetes writes and replaces one), it is the answer to a GET (of the metadata server of another
cloud, or of a program beside the gateway), or it is a signed request of AWS (`google_aws`).
"""

import re
from functools import partial

from streamweir.core.errors import UpstreamError
from streamweir.upstream.cloud.file import FileFault, FileReads, read_file
from streamweir.upstream.cloud.google_aws import signed_request
from streamweir.upstream.cloud.google_file import ExternalAccount, TokenFormat
from streamweir.upstream.credential import refused_by
from streamweir.upstream.fetch import fetch
from streamweir.wire import jsonio

_MAX_LENGTH = 32 * 1024
_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a character, which JSON can have: it cannot be sent."""


async def subject_token(
    account: ExternalAccount,
    files: FileReads,
    *,
    timeout_s: float,
    proxy: str | None = None,
    ca_file: str | None = None,
) -> str:
    """`proxy`, `ca_file`: for AWS's token service; other servers are in the machine's own network. Raises
    `StreamweirError`."""
    source = account.credential_source
    if source.environment_id is not None:
        return await signed_request(account, timeout_s=timeout_s, proxy=proxy, ca_file=ca_file)
    if source.file is not None:
        try:
            data = await files.run(partial(read_file, source.file))
        except FileFault as reason:
            message = f"The file with the token for Google's workload identity cannot be used: {reason}."
            raise refused_by(message, f"{source.file}: {reason}") from None
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
    if not isinstance(token, str) or not 0 < len(token) <= _MAX_LENGTH or _SURROGATE.search(token):
        raise refused_by("There is no token for Google's workload identity where its file says.")
    return token
