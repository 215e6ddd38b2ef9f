"""Where keys for AWS come from: the sources that AWS's own programs have, in their order.

    settings -> environment -> web identity -> shared files (profile) -> container -> instance

The first that has keys is used (`source = "chain"`), or the one that the operator names. With a `role_arn` they are
exchanged for keys of that role (`aws_token_service`). Programs that a profile names (`credential_process`) are never
run, and nothing is asked of a person: such a profile is refused, with what can be done instead. What a caller can see
names no file, account or address: such details are in the error's report, for the operator.
"""

import os
import re
import shlex
from collections.abc import Mapping
from configparser import Error as InvalidFile
from configparser import RawConfigParser
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.upstream.cloud.aws_token_service import (
    RoleRequest,
    TokenServices,
    container_keys,
    instance_keys,
)
from streamweir.upstream.cloud.file import FileFault, FileMissing, FileReads, read_file
from streamweir.upstream.cloud.sigv4 import AwsKeys
from streamweir.upstream.credential import Lease, refused_by

Source = Literal["chain", "static", "environment", "profile", "web_identity", "container", "instance"]
Keys = Lease[AwsKeys]

_MAX_FILE_BYTES = 1024 * 1024
_MAX_TOKEN_BYTES = 64 * 1024
_CONTAINER_URL = "http://169.254.170.2"
_INSTANCE_URL = "http://169.254.169.254"
_CONTAINER_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost"})
"""To which a URL of the environment may lead without TLS, beside loopback addresses."""
_NAMES = ("access_key_id", "secret_access_key", "session_token")
_SENDABLE = re.compile(r"[!-~]*")
_NOT_SENDABLE = "contains a character that cannot be sent, such as a space or a line break"
_NO_COMMENT = "A comment needs a line of its own."
_NO_KEYS = "The gateway found no AWS credentials. Configure `aws` of the provider, or run it where AWS gives it a role."
_CHECK_PROFILE = "Check `aws.profile`, and the shared files in the home directory of the gateway's user."
_NOT_USED = {
    "credential_process": "runs a program",
    "sso_": "needs a person who signs in",
    "login_session": "needs a person who signs in",
}
"""How names in a profile begin from which no keys are taken."""
_CREDENTIAL_SOURCES = {"environment": "environment", "ec2instancemetadata": "instance", "ecscontainer": "container"}


class AwsSettings(Struct, frozen=True, kw_only=True):
    """As in docs/configuration.md."""

    region: str
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    session_name: str | None = None
    web_identity_token_file: str | None = None
    source: Source = "chain"
    sts_url: str | None = None
    metadata_url: str | None = None
    proxy: str | None = None
    """For STS. Containers and instances ask their own host."""
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"AwsSettings({self.source!r})"


class UnusableKeys(Exception):
    """They cannot be sent: they become headers."""


class KeySource:
    def __init__(self, settings: AwsSettings, environment: Mapping[str, str]) -> None:
        """Raises `ValueError` for settings that contradict each other."""
        self._settings = settings
        self._environment = environment
        self._services = TokenServices(
            sts_url=settings.sts_url or _sts_url(settings.region),
            region=settings.region,
            proxy=settings.proxy,
            ca_file=settings.ca_file,
        )
        self._files = _Files()
        self._is_on_instance = False
        """Its metadata service has given keys before."""
        try:
            self._static = _keys_of(settings.access_key_id, settings.secret_access_key, settings.session_token)
        except UnusableKeys:
            raise ValueError(f"the access key {_NOT_SENDABLE}") from None
        if (settings.access_key_id is None) != (settings.secret_access_key is None):
            raise ValueError("access_key_id and secret_access_key are needed together")
        if settings.source == "static" and self._static is None:
            raise ValueError('source = "static" needs access_key_id and secret_access_key')
        if settings.web_identity_token_file is not None and settings.role_arn is None:
            raise ValueError("web_identity_token_file needs role_arn")

    @property
    def fixed(self) -> AwsKeys | None:
        """Keys of the operator's file that are used as they are."""
        is_static = self._settings.source in ("chain", "static") and self._settings.role_arn is None
        return self._static if is_static else None

    @property
    def name(self) -> str:
        """Of the service that is asked, for messages."""
        source, environment = self._settings.source, self._environment
        if self._settings.role_arn is not None or source == "web_identity":
            return "AWS STS"
        if source == "chain" and environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
            return "AWS STS"
        names = {"container": "AWS's container credentials", "instance": "AWS's instance metadata"}
        return names.get(source, "AWS's credential service")

    async def fetch(self) -> Keys:
        """Raises `StreamweirError`."""
        settings, source = self._settings, self._settings.source
        if settings.web_identity_token_file is not None and source in ("chain", "web_identity"):
            return await self._web_identity()
        keys = await (self._chain() if source == "chain" else self._one(source))
        if settings.role_arn is None or source == "web_identity":
            return keys
        role = RoleRequest(
            role_arn=settings.role_arn, session_name=settings.session_name, external_id=settings.external_id
        )
        return await self._services.assume_role(role, keys.value)

    async def _chain(self) -> Keys:
        if self._static is not None:
            return _unlimited(self._static)
        environment = self._environment
        if self._settings.profile is None:  # a profile that the operator names comes before all others
            if (keys := _from_environment(environment)) is not None:
                return keys
            file, role_arn = (environment.get(f"AWS_{each}") for each in ("WEB_IDENTITY_TOKEN_FILE", "ROLE_ARN"))
            if file and role_arn:  # a role of the settings is assumed with the keys of this one
                role = RoleRequest(role_arn=role_arn, session_name=environment.get("AWS_ROLE_SESSION_NAME"))
                return await self._with_token_file(file, role)
        if (keys := await self._profile(self._settings.profile, ())) is not None:
            return keys
        if environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or environment.get(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI"
        ):
            return await self._container()
        if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise refused_by(_NO_KEYS)
        try:
            keys = await self._instance()
            self._is_on_instance = True
            return keys
        except UpstreamError as error:
            if self._is_on_instance:
                raise
            # Most likely this is no machine of AWS: the last source of a chain is no clue to what is missing.
            raise refused_by(_NO_KEYS, f"instance metadata: {error.message}") from None

    async def _one(self, source: Source) -> Keys:
        keys: Keys | None = None
        if source == "static":
            keys = _unlimited(self._static) if self._static is not None else None
        elif source == "environment":
            keys = _from_environment(self._environment)
        elif source == "profile":
            keys = await self._profile(self._settings.profile, ())
        elif source == "web_identity":
            keys = await self._web_identity()
        elif source == "container":
            keys = await self._container()
        elif source == "instance":
            keys = await self._instance()
        if keys is None:
            raise refused_by(f"The gateway found no AWS credentials in their source ({source}).")
        return keys

    # Of the environment.

    async def _web_identity(self) -> Keys:
        """The settings replace what the environment says."""
        settings, environment = self._settings, self._environment
        file = settings.web_identity_token_file or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        role_arn = settings.role_arn or environment.get("AWS_ROLE_ARN")
        if not file or not role_arn:
            raise refused_by("The gateway has no web identity for AWS: a token file and a role are needed.")
        name = settings.session_name or environment.get("AWS_ROLE_SESSION_NAME")
        return await self._with_token_file(file, RoleRequest(role_arn=role_arn, session_name=name))

    async def _with_token_file(self, file: str, role: RoleRequest) -> Keys:
        token = (await self._files.read(file, _MAX_TOKEN_BYTES)).strip()
        return await self._services.assume_role_with_token(role, token)

    async def _container(self) -> Keys:
        environment = self._environment
        relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        if relative:
            url = (self._settings.metadata_url or _CONTAINER_URL).rstrip("/") + "/" + relative.lstrip("/")
        else:
            url = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
            if not url:
                raise refused_by("The gateway runs in no container of AWS that has a role.")
            if not _may_be_asked(url):
                text = "AWS_CONTAINER_CREDENTIALS_FULL_URI leads to another machine without TLS"
                raise refused_by("The address of the container's AWS credentials is not allowed.", text)
        token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = (await self._files.read(file, _MAX_TOKEN_BYTES)).strip()
        return await container_keys(url, token)

    async def _instance(self) -> Keys:
        environment = self._environment
        url = self._settings.metadata_url or environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE_URL
        return await instance_keys(url.rstrip("/"))

    # Of shared files.

    async def _profile(self, asked: str | None, seen: tuple[str, ...]) -> Keys | None:
        """None: there is none, and nobody has named one."""
        environment = self._environment
        named = asked or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
        name = named or "default"
        if name in seen:
            raise refused_by("The AWS profiles of the gateway refer to each other in a circle.", f"profile {name}")
        profile = await self._load_profile(name)
        if profile is None:
            if named is None and self._settings.source == "chain":
                return None
            raise refused_by(f"The gateway's AWS profile does not exist. {_CHECK_PROFILE}", f"profile {name}")
        try:
            keys = _keys_of(*(profile.get(f"aws_{each}") for each in _NAMES))
        except UnusableKeys:
            raise refused_by(
                f"The access key of the gateway's AWS profile {_NOT_SENDABLE}. {_NO_COMMENT}", f"profile {name}"
            ) from None
        if (role_arn := profile.get("role_arn")) is None:
            return self._own_keys(keys, profile, name)
        role = RoleRequest(
            role_arn=role_arn,
            session_name=profile.get("role_session_name"),
            external_id=profile.get("external_id"),
            duration_s=_seconds(profile.get("duration_seconds")),
        )
        if file := profile.get("web_identity_token_file"):
            return await self._with_token_file(file, role)
        if "mfa_serial" in profile:
            raise refused_by("The gateway's AWS profile needs a second factor, which nobody can give it.", name)
        base = await self._base_keys(profile, name, keys, seen)
        return await self._services.assume_role(role, base)

    def _own_keys(self, keys: AwsKeys | None, profile: Mapping[str, str], name: str) -> Keys | None:
        if keys is not None:
            return _unlimited(keys)
        for key, what in _NOT_USED.items():
            if any(each.startswith(key) for each in profile):
                message = f"The gateway's AWS profile {what}: it is not used. Configure keys or a role."
                raise refused_by(message, f"profile {name}")
        if self._settings.source == "chain" and self._settings.profile is None:
            return None
        raise refused_by(f"The gateway's AWS profile has no keys. {_CHECK_PROFILE}", f"profile {name}")

    async def _base_keys(
        self, profile: Mapping[str, str], name: str, own: AwsKeys | None, seen: tuple[str, ...]
    ) -> AwsKeys:
        """With which the role of the profile is assumed."""
        if (other := profile.get("source_profile")) is not None:
            if other == name and own is not None:
                return own
            found = await self._profile(other, (*seen, name))
        else:
            source = _CREDENTIAL_SOURCES.get(profile.get("credential_source", "").lower())
            if source == "environment":
                found = _from_environment(self._environment)
            elif source is not None:
                found = await (self._instance() if source == "instance" else self._container())
            else:
                found = None
        if found is None:
            raise refused_by("The gateway's AWS profile has a role and no keys to assume it with.", f"profile {name}")
        return found.value

    async def _load_profile(self, name: str) -> dict[str, str] | None:
        """Keys of the credentials file come before those of the config file."""
        environment, home = self._environment, self._environment.get("HOME") or "~"
        config = environment.get("AWS_CONFIG_FILE") or f"{home}/.aws/config"
        shared = environment.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/.aws/credentials"
        found: dict[str, str] = {}
        is_there = False
        for file, profile_in in ((config, _profile_of_section), (shared, str.strip)):
            text = await self._files.read(file, _MAX_FILE_BYTES, missing="")
            for section, settings in (_parse(text, file) if text else {}).items():
                if profile_in(section) == name:
                    is_there = True
                    found |= settings
        return found if is_there else None


def _sts_url(region: str) -> str:
    domain = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}.get(region.partition("-")[0], "amazonaws.com")
    return f"https://sts.{region}.{domain}"


def _unlimited(keys: AwsKeys) -> Keys:
    return Lease(value=keys, lives_s=None)


def _keys_of(id: str | None, secret: str | None, token: str | None) -> AwsKeys | None:
    """Without the line end that variables often have. Raises `UnusableKeys`."""
    id, secret, token = ((each or "").strip() for each in (id, secret, token))
    if not id or not secret:
        return None
    if not all(_SENDABLE.fullmatch(each) for each in (id, secret, token)):
        raise UnusableKeys
    return AwsKeys(access_key_id=id, secret_access_key=secret, session_token=token or None)


def _from_environment(environment: Mapping[str, str]) -> Keys | None:
    try:
        keys = _keys_of(*(environment.get(f"AWS_{each.upper()}") for each in _NAMES))
    except UnusableKeys:
        raise refused_by(f"The AWS access key in the gateway's environment {_NOT_SENDABLE}.") from None
    return _unlimited(keys) if keys is not None else None


def _may_be_asked(url: str) -> bool:
    try:
        parts = urlsplit(url)
        if parts.scheme == "https":
            return True
        host = parts.hostname or ""
        return parts.scheme == "http" and (host in _CONTAINER_HOSTS or ip_address(host).is_loopback)
    except ValueError:
        return False


def _seconds(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,6}", text) else None


class _Files:
    def __init__(self) -> None:
        self._reads = FileReads()

    async def read(self, file: str, max_bytes: int, missing: str | None = None) -> str:
        """`missing`: the text if it does not exist; None: that is an error."""
        try:
            data = await self._reads.run(lambda: read_file(os.path.expanduser(file), max_bytes))
        except FileMissing as reason:
            if missing is not None:
                return missing
            raise refused_by("A file with AWS credentials does not exist.", f"{file}: {reason}") from None
        except FileFault as reason:
            raise refused_by(f"A file with AWS credentials cannot be used: {reason}.", f"{file}: {reason}") from None
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass  # the exception contains the file
        raise refused_by("A file with AWS credentials cannot be used: it is not text.", file)


def _profile_of_section(section: str) -> str | None:
    """Of the config file: `[default]`, and `[profile NAME]`, whose name may be in quotation marks."""
    if section.strip() == "default":
        return "default"
    try:
        words = shlex.split(section)
    except ValueError:  # a quotation mark without an end
        return None
    return words[1] if len(words) == 2 and words[0] == "profile" else None


def _parse(text: str, file: str) -> dict[str, dict[str, str]]:
    """The sections. As AWS's own programs read them: a line can be a comment, but what follows a value is its part."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except InvalidFile as reason:
        # Not its text: it quotes the line, which may be a secret.
        raise refused_by("A file with AWS credentials is not valid.", f"{file}: {type(reason).__name__}") from None
    return {name: dict(parser[name]) for name in parser.sections()}
