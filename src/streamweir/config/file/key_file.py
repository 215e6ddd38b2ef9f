"""Reads the keys of providers that are in files of their own: `api_key_file`, and `file` of an entry of `api_keys`.

The content without the white space around it is the key, so a file that ends with a line break is fine. A file is read
when the configuration is, also at a reload: a key is changed by writing the file and sending `SIGHUP`. Problems name
the setting and the reason, never the content.
"""

from msgspec import structs

from streamweir.config.error import ConfigProblem, member
from streamweir.config.file.text_file import UnreadableFile, read_text
from streamweir.config.model import Config, Credential, Provider

_MAX_BYTES = 65_536


def read_key_files(config: Config) -> tuple[Config, list[ConfigProblem]]:
    """The configuration with the keys from files. File names must be absolute."""
    problems: list[ConfigProblem] = []
    providers = tuple(_of_provider(provider, problems) for provider in config.providers)
    return structs.replace(config, providers=providers), problems


def _of_provider(provider: Provider, problems: list[ConfigProblem]) -> Provider:
    where = member("providers", provider.name)
    if provider.api_key_file is not None:
        at = f"{where}.api_key_file"
        if provider.api_key:
            problems.append(ConfigProblem(at, "has no effect beside api_key: use one of them"))
        else:
            provider = structs.replace(provider, api_key=_key_of(provider.api_key_file, at, problems) or "")
    api_keys = tuple(_of_credential(each, f"{where}.api_keys", problems) for each in provider.api_keys)
    return structs.replace(provider, api_keys=api_keys)


def _of_credential(credential: Credential, where: str, problems: list[ConfigProblem]) -> Credential:
    if credential.file is None:
        return credential
    at = f"{member(where, credential.name or '')}.file"
    if credential.key is not None:
        problems.append(ConfigProblem(at, "has no effect beside key: use one of them"))
        return credential
    return structs.replace(credential, key=_key_of(credential.file, at, problems))


def _key_of(file: str, where: str, problems: list[ConfigProblem]) -> str | None:
    try:
        key = read_text(file, _MAX_BYTES).strip()
    except UnreadableFile as reason:
        problems.append(ConfigProblem(where, str(reason)))
        return None
    if not key:
        problems.append(ConfigProblem(where, "the file is empty"))
        return None
    if len(key.splitlines()) > 1:
        problems.append(ConfigProblem(where, "the file has several lines: expected the key alone"))
        return None
    return key
