"""Access tokens of an Azure managed identity, from the service that the machine has for it.

    virtual machines, AKS nodes: the instance metadata service      169.254.169.254
    App Service, Functions, Container Apps: IDENTITY_ENDPOINT, with the secret in IDENTITY_HEADER
    servers with Azure Arc: IDENTITY_ENDPOINT, which wants to see a file that only its group can read

All of them are on the machine or next to it: no proxy is used, and redirects are not followed. `metadata_url` names an
instance metadata service, and then the variables of the environment do not count.
"""

import os
import re
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from msgspec import structs

from streamweir.core.errors import ErrorReport, UpstreamError
from streamweir.upstream.cloud.file import FileFault, FileReads, read_file
from streamweir.upstream.cloud.token_answer import token_in
from streamweir.upstream.credential import Lease, refused_by
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.upstream.head import Fields
from streamweir.wire import jsonio

METADATA_SERVICE = "Azure's metadata service"
_METADATA_URL = "http://169.254.169.254"
_PATH = "/metadata/identity/oauth2/token"
_TIMEOUT_S = 5.0
_NOT_READY = (404, 410)
"""Of the instance metadata service: it is being updated, or the identity is still being set up. It refuses with 400."""
_ARC_FOLDER = Path("/var/opt/azcmagent/tokens")
_ARC_MAX_BYTES = 4096
_REALM = re.compile(r'Basic realm="?(?P<file>[^"]+?)"?', re.IGNORECASE)
_ADVICE = (
    "This machine has no managed identity, or not the one with this client_id: assign one to it. With several "
    "identities set client_id."
)


class ManagedIdentity:
    def __init__(
        self, *, resource: str, client_id: str | None, metadata_url: str | None, arc_folder: Path = _ARC_FOLDER
    ) -> None:
        """`client_id`: of an identity that a user has assigned. None: the machine's own."""
        self._query = {"resource": resource} | ({"client_id": client_id} if client_id else {})
        self._metadata_url = metadata_url
        self._arc_folder = arc_folder
        self._files = FileReads()

    async def fetch(self) -> Lease[str]:
        """Raises `StreamweirError`."""
        endpoint, secret = os.environ.get("IDENTITY_ENDPOINT"), os.environ.get("IDENTITY_HEADER")
        if self._metadata_url is not None or not endpoint:
            base = (self._metadata_url or _METADATA_URL).rstrip("/")
            answer = await self._get(f"{base}{_PATH}", "2018-02-01", (("metadata", "true"),))
            if answer.status in _NOT_READY:
                raise _not_ready(answer.status)
        elif secret:
            if re.fullmatch(r"[!-~]+", secret) is None:
                raise refused_by("IDENTITY_HEADER contains a character that cannot be sent.")
            answer = await self._get(endpoint, "2019-08-01", (("x-identity-header", secret),))
        elif os.environ.get("IMDS_ENDPOINT"):
            answer = await self._get_from_arc(endpoint)
        else:
            raise refused_by("IDENTITY_ENDPOINT is set, but neither IDENTITY_HEADER nor IMDS_ENDPOINT.")
        lease = token_in(answer, METADATA_SERVICE, _ADVICE)
        return structs.replace(lease, lives_s=_life_s(answer, lease.lives_s))

    async def _get(self, url: str, version: str, headers: Fields) -> Fetched:
        query = urlencode({"api-version": version, **self._query})
        return await fetch(f"{url}?{query}", headers=headers, timeout_s=_TIMEOUT_S)

    async def _get_from_arc(self, endpoint: str) -> Fetched:
        """It names a file; who can read it may have the token."""
        plain = (("metadata", "true"),)
        answer = await self._get(endpoint, "2020-06-01", plain)
        if answer.status != 401:
            return answer
        try:
            key = await self._files.run(partial(self._arc_key, answer.headers.get("www-authenticate", "")))
        except FileFault as reason:
            raise refused_by(
                f"The file that Azure Arc names cannot be used: {reason}. Let the gateway's user be in the group himds."
            ) from None
        return await self._get(endpoint, "2020-06-01", (*plain, ("authorization", f"Basic {key}")))

    def _arc_key(self, challenge: str) -> str:
        """The content of the file, which must be in the folder of the agent: nothing else is read and sent."""
        found = _REALM.fullmatch(challenge.strip())
        file = Path(found["file"]) if found is not None else Path()
        if file.parent != self._arc_folder or file.suffix != ".key" or file.is_symlink():
            raise FileFault("it is not one of its own")
        data = read_file(str(file))
        if not 0 < len(data) <= _ARC_MAX_BYTES or re.fullmatch(rb"[\x21-\x7e]+", data) is None:
            raise FileFault("it has no key")
        return data.decode()


def _not_ready(status: int) -> UpstreamError:
    error = UpstreamError("upstream_overloaded", f"{METADATA_SERVICE} is not ready.")
    error.report = ErrorReport(status=status)
    return error


def _life_s(answer: Fetched, otherwise: float | None) -> float | None:
    """`expires_in`, or on App Service `expires_on`, in seconds since 1970: both as text."""
    document = jsonio.decode(answer.body)
    if "expires_in" in document:
        return otherwise
    end = str(document.get("expires_on"))
    return int(end) - time.time() if re.fullmatch(r"[0-9]{1,12}", end) else otherwise
