"""Access tokens of Google, for Vertex AI.

    credentials file -> (signed JWT, refresh token, or another identity's token) -> token service -> access token
    metadata server  ------------------------------------------------------------------------------> access token

`adc` are application default credentials: the file that the environment names, the file of `gcloud`, else the metadata
server. A token is fetched by one refresh at a time, with one to three calls, and kept by `upstream.credential`. Answers
of token services are never quoted, apart from their short codes.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from msgspec import Struct

from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.cloud.file import FileFault, FileReads
from streamweir.upstream.cloud.google_file import (
    AuthorizedUser,
    Credentials,
    ExternalAccount,
    ImpersonatedAccount,
    ServiceAccount,
    WorkforceUser,
    default_file,
    read_credentials,
)
from streamweir.upstream.cloud.google_subject import subject_token
from streamweir.upstream.cloud.jwt import NO_LIBRARY, KeyFault, can_sign, signed_token
from streamweir.upstream.cloud.token_answer import basic_header, token_in
from streamweir.upstream.credential import Lease, RefreshedCredential, RefreshFailure, refused_by
from streamweir.upstream.fetch import Fetched, fetch
from streamweir.upstream.head import Fields
from streamweir.wire import jsonio

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_SERVICE = "Google's token service"
_TIMEOUT_S = 8.0
"""For one call; a refresh has ten seconds for all of its calls."""
_METADATA_S = 3.0
_ASSERTION_S = 3600
_METADATA_URL = "http://metadata.google.internal"
_METADATA_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_PROJECT = re.compile(r"[a-z0-9:.-]{1,128}")
_FORM = (("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json"))


class GoogleSettings(Struct, frozen=True, kw_only=True):
    source: Literal["adc", "file", "metadata"] = "adc"
    credentials_file: str | None = None
    token_url: str | None = None
    """Instead of the address in the file."""
    metadata_url: str | None = None
    proxy: str | None = None
    """Not for metadata servers, which are in the machine's own network."""
    ca_file: str | None = None


class GoogleToken(Struct, frozen=True):
    token: str
    quota_project: str | None = None

    def __repr__(self) -> str:
        return "GoogleToken()"


class GoogleAuthorizer:
    """See `upstream.authorized.Authorizer`."""

    def __init__(self, credential: RefreshedCredential[GoogleToken]) -> None:
        self._credential = credential

    async def headers_for(self, _request: UpstreamRequest, /) -> Fields:
        value = await self._credential.get()
        token = ("authorization", f"Bearer {value.token}")
        if value.quota_project is None:
            return (token,)
        return (token, ("x-goog-user-project", value.quota_project))

    async def refused(self) -> bool:
        return await self._credential.refused()

    async def close(self) -> None:
        await self._credential.close()


def authorizer_of(
    settings: GoogleSettings,
    *,
    on_failure: Callable[[RefreshFailure], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> GoogleAuthorizer:
    """Raises `ValueError` if the configured file cannot be used."""
    if settings.source == "file":
        try:
            credentials = read_credentials(settings.credentials_file or "")
        except FileFault as reason:
            raise ValueError(f"the file of credentials_file: {reason}") from None
        if _signs(credentials) and not can_sign():
            raise ValueError(f"the file of credentials_file: {NO_LIBRARY}")
    tokens = GoogleTokens(settings)
    return GoogleAuthorizer(RefreshedCredential(_SERVICE, tokens.fetch, on_failure=on_failure, clock=clock))


def _signs(credentials: Credentials) -> bool:
    if isinstance(credentials, ImpersonatedAccount):
        return _signs(credentials.source_credentials)
    return isinstance(credentials, ServiceAccount)


class GoogleTokens:
    """Where tokens come from. What was fetched is kept by the caller."""

    def __init__(self, settings: GoogleSettings) -> None:
        self._settings = settings
        self._files = FileReads()

    async def fetch(self) -> Lease[GoogleToken]:
        """Raises `StreamweirError`."""
        settings = self._settings
        if settings.source == "metadata":
            return await self._ask_metadata()
        path = settings.credentials_file
        if settings.source == "adc" and path is None:
            path = await self._files.run(default_file)
            if path is None:
                return await self._ask_metadata_last()
        try:
            credentials = await self._files.run(partial(read_credentials, path or ""))
        except FileFault as reason:
            message = f"The file of Google's credentials cannot be used: {reason}."
            raise refused_by(message, f"{path}: {reason}") from None
        project = os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT") or credentials.quota_project_id
        lease = await self._token_for(credentials)
        return _with_project(lease, project)

    async def _token_for(self, credentials: Credentials) -> Lease[str]:
        if isinstance(credentials, ServiceAccount):
            return await self._exchange_assertion(credentials)
        if isinstance(credentials, AuthorizedUser | WorkforceUser):
            return await self._exchange_login(credentials)
        if isinstance(credentials, ExternalAccount):
            return await self._exchange_subject(credentials)
        source = await self._token_for(credentials.source_credentials)
        url, delegates = credentials.service_account_impersonation_url, credentials.delegates
        return await self._act_as(url, source.value, delegates, _ASSERTION_S)

    async def _exchange_assertion(self, account: ServiceAccount) -> Lease[str]:
        now = int(time.time())
        claims = {
            "iss": account.client_email,
            "scope": SCOPE,
            "aud": account.token_uri,
            "iat": now,
            "exp": now + _ASSERTION_S,
        }
        header = {"kid": account.private_key_id} if account.private_key_id else {}
        try:
            assertion = await asyncio.to_thread(signed_token, header, claims, account.private_key.encode())
        except KeyFault as reason:
            raise refused_by(f"The key of Google's service account cannot be used: {reason}.") from None
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
        answer = await self._post(self._settings.token_url or account.token_uri, form)
        return token_in(
            answer,
            _SERVICE,
            "It refused the key of the service account: check that the account and its key exist and are enabled, and "
            "the clock of this machine.",
        )

    async def _exchange_login(self, login: AuthorizedUser | WorkforceUser) -> Lease[str]:
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
        headers: Fields = ()
        if isinstance(login, WorkforceUser):
            url, headers = login.token_url, (basic_header(login.client_id, login.client_secret),)
        else:
            url = login.token_uri
            form |= {"client_id": login.client_id, "client_secret": login.client_secret}
        answer = await self._post(self._settings.token_url or url, form, headers)
        return token_in(
            answer,
            _SERVICE,
            "It refused the login, which has expired or was revoked: run gcloud auth application-default login, or use "
            "a service account.",
        )

    async def _exchange_subject(self, account: ExternalAccount) -> Lease[str]:
        subject = await subject_token(
            account, self._files, timeout_s=_METADATA_S, proxy=self._settings.proxy, ca_file=self._settings.ca_file
        )
        impersonates = account.service_account_impersonation_url
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "audience": account.audience,
            "scope": SCOPE,
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token_type": account.subject_token_type,
            "subject_token": subject,
        }
        headers: Fields = ()
        if account.client_id is not None:
            headers = (basic_header(account.client_id, account.client_secret or ""),)
        elif account.workforce_pool_user_project is not None:
            form["options"] = jsonio.encode({"userProject": account.workforce_pool_user_project}).decode()
        answer = await self._post(self._settings.token_url or account.token_url, form, headers)
        lease = token_in(
            answer,
            _SERVICE,
            "It refused the token of the other identity: check the provider of the workload identity pool, its "
            "audience and its conditions.",
        )
        if impersonates is None:
            return lease
        life_s = account.service_account_impersonation.token_lifetime_seconds
        return await self._act_as(impersonates, lease.value, (), life_s)

    async def _act_as(self, url: str, token: str, delegates: tuple[str, ...], life_s: int) -> Lease[str]:
        body = jsonio.encode({"scope": [SCOPE], "lifetime": f"{life_s}s", "delegates": list(delegates)})
        headers = (("authorization", f"Bearer {token}"), ("content-type", "application/json"))
        answer = await self._call(url, method="POST", headers=headers, body=body, timeout_s=_TIMEOUT_S)
        return token_in(
            answer,
            "Google's IAM service",
            "It does not let the credentials act as the service account: grant them the role Service Account Token "
            "Creator (roles/iam.serviceAccountTokenCreator) on it.",
            names=("accessToken", "expireTime"),
        )

    async def _ask_metadata(self) -> Lease[GoogleToken]:
        host = os.environ.get("GCE_METADATA_HOST")
        base = self._settings.metadata_url or (f"http://{host}" if host else _METADATA_URL)
        url = f"{base.rstrip('/')}{_METADATA_PATH}?{urlencode({'scopes': SCOPE})}"
        answer = await fetch(url, headers=(("metadata-flavor", "Google"),), timeout_s=_METADATA_S)
        if answer.headers.get("metadata-flavor", "").lower() != "google":
            raise refused_by("The server at the address of Google's metadata server is another one.")
        advice = "This machine has no service account, or it lacks the scope cloud-platform: set one for the machine."
        return _with_project(
            token_in(answer, "Google's metadata server", advice), os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT")
        )

    async def _ask_metadata_last(self) -> Lease[GoogleToken]:
        try:
            return await self._ask_metadata()
        except StreamweirError as error:
            if error.code not in ("upstream_dns_failed", "upstream_connect_failed"):
                raise
            missing = refused_by(
                "The gateway has no credentials of Google: this machine is none of Google's, and neither "
                "GOOGLE_APPLICATION_CREDENTIALS nor a login of gcloud names a file. Set google.credentials_file."
            )
            missing.trace = error.trace
            raise missing from None

    async def _post(self, url: str, form: dict[str, str], headers: Fields = ()) -> Fetched:
        body = urlencode(form).encode()
        return await self._call(url, method="POST", headers=(*headers, *_FORM), body=body, timeout_s=_TIMEOUT_S)

    async def _call(self, url: str, **options: Any) -> Fetched:
        settings = self._settings
        return await fetch(url, proxy=settings.proxy, ca_file=settings.ca_file, **options)


def _with_project(lease: Lease[str], project: str | None) -> Lease[GoogleToken]:
    known = project if project is not None and _PROJECT.fullmatch(project) else None
    return Lease(value=GoogleToken(lease.value, known), lives_s=lease.lives_s)
