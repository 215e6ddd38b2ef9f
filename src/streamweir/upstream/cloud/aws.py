"""Requests to AWS, signed with keys that are found as AWS's own programs find them.

    settings, environment, files, token services (`aws_source`) -> keys -> Signer (`sigv4`) -> headers

Keys that the operator's file contains are used as they are. All others are fetched with the first request, and again
before they expire (`upstream.credential`); keys of a file without an expiry are read again if AWS refuses them. The
body of a request is part of its signature: a large one is hashed in a thread.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Mapping

from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.address import read_base_url
from streamweir.upstream.cloud.aws_source import AwsSettings as AwsSettings
from streamweir.upstream.cloud.aws_source import KeySource
from streamweir.upstream.cloud.sigv4 import AwsKeys, Signer
from streamweir.upstream.credential import RefreshedCredential, RefreshFailure
from streamweir.upstream.head import Fields

_MAX_BYTES_ON_LOOP = 256 * 1024


class AwsAuthorizer:
    """See `upstream.authorized.Authorizer`."""

    def __init__(self, signer: Signer, keys: AwsKeys | RefreshedCredential[AwsKeys]) -> None:
        self._signer = signer
        self._keys = keys

    async def headers_for(self, request: UpstreamRequest, /) -> Fields:
        keys = self._keys if isinstance(self._keys, AwsKeys) else await self._keys.get()
        body = request.body
        if len(body) <= _MAX_BYTES_ON_LOOP:
            digest = hashlib.sha256(body).hexdigest()
        else:
            digest = await asyncio.get_running_loop().run_in_executor(None, _digest_of, body)
        return self._signer.sign(
            keys,
            method=request.method,
            path=request.path,
            headers=request.headers,
            body_digest=digest,
            at_s=time.time(),
        )

    async def refused(self) -> bool:
        return not isinstance(self._keys, AwsKeys) and await self._keys.refused()

    async def close(self) -> None:
        if not isinstance(self._keys, AwsKeys):
            await self._keys.close()


def authorizer_of(
    settings: AwsSettings,
    *,
    base_url: str,
    service: str,
    headers: Fields = (),
    environment: Mapping[str, str] | None = None,
    on_failure: Callable[[RefreshFailure], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> AwsAuthorizer:
    """Reads and asks nothing yet. `service` is its name in signatures, `headers` are the operator's. Raises
    `ValueError` for settings that cannot be used."""
    address = read_base_url(base_url)
    signer = Signer(
        region=settings.region, service=service, host=address.authority, prefix=address.prefix, headers=headers
    )
    source = KeySource(settings, os.environ if environment is None else environment)
    if (keys := source.fixed) is not None:
        return AwsAuthorizer(signer, keys)
    return AwsAuthorizer(signer, RefreshedCredential(source.name, source.fetch, on_failure=on_failure, clock=clock))


def _digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
