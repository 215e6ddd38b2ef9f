"""A token for Google's workload identity on AWS: a request to AWS STS that is signed, and sent by Google.

By its answer Google knows which role has signed it. The keys are those that `aws_source` finds for this machine; the
region is in the environment, or in the metadata of the instance. The signed request names the provider of the identity
pool that it is for, so that it is of no use for another.
"""

import hashlib
import os
import re
import time
from urllib.parse import quote, urlsplit

from streamweir.upstream.cloud.aws_source import AwsSettings, KeySource
from streamweir.upstream.cloud.google_file import ExternalAccount, SubjectSource
from streamweir.upstream.cloud.sigv4 import Signer
from streamweir.upstream.credential import refused_by
from streamweir.upstream.fetch import fetch
from streamweir.upstream.head import Fields
from streamweir.wire import jsonio

_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z0-9]{1,20}){1,4}")
_NOTHING = hashlib.sha256(b"").hexdigest()
_NO_REGION = "The region of this machine at AWS is not known, for Google's workload identity: set AWS_REGION."


async def signed_request(
    account: ExternalAccount, *, timeout_s: float, proxy: str | None = None, ca_file: str | None = None
) -> str:
    """Raises `StreamweirError`."""
    source = account.credential_source
    region = await _region(source, timeout_s)
    settings = AwsSettings(region=region, metadata_url=_origin(source.url), proxy=proxy, ca_file=ca_file)
    keys = (await KeySource(settings, os.environ).fetch()).value
    url = (source.regional_cred_verification_url or "").replace("{region}", region)
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    signer = Signer(region=region, service="sts", host=parts.netloc)
    signed = signer.sign(keys, method="POST", path=target, headers=(), body_digest=_NOTHING, at_s=time.time())
    headers = [("host", parts.netloc), *signed, ("x-goog-cloud-target-resource", account.audience)]
    document = {
        "url": url,
        "method": "POST",
        "headers": [{"key": name, "value": value} for name, value in sorted(headers)],
    }
    return quote(jsonio.encode(document).decode(), safe="")


async def _region(source: SubjectSource, timeout_s: float) -> str:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region and source.region_url is not None:
        headers: Fields = ()
        if source.imdsv2_session_token_url is not None:
            lives = ("x-aws-ec2-metadata-token-ttl-seconds", "300")
            answer = await fetch(source.imdsv2_session_token_url, method="PUT", headers=(lives,), timeout_s=timeout_s)
            token = answer.body.decode("latin-1").strip()
            if not answer.is_success or re.fullmatch(r"[\x21-\x7e]{1,4096}", token) is None:
                raise refused_by(_NO_REGION)
            headers = (("x-aws-ec2-metadata-token", token),)
        answer = await fetch(source.region_url, headers=headers, timeout_s=timeout_s)
        zone = answer.body.decode("latin-1").strip() if answer.is_success else ""
        region = zone[:-1]  # us-east-1b is a zone of us-east-1
    if not region or _REGION.fullmatch(region) is None:  # it becomes a part of a host's name
        raise refused_by(_NO_REGION)
    return region


def _origin(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
