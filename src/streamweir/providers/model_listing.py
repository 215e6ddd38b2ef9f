"""How the clouds list their models: the calls for a list, and the names in their answers.

    bedrock         the foundation models that can be called on demand, and the inference profiles of AWS
    bedrock-mantle  its models, in OpenAI's format
    vertex          Gemini and embedding models, Claude, and the open models that Google runs
    azure           the deployments of the resource: the names of its models cannot be called

Named is what the gateway can call, by the name under which it can be called. A list is data from outside: names of
another form are left out, and a name that is listed is not more than a name. Pure:
`server.request.lookup.model_refresh` makes the calls.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from streamweir.wire.jsonio import InvalidJson

MAX_NAMES = 500
"""Of one provider."""
_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][\w.:@/-]{0,127}", re.ASCII)
_MAX_QUOTES = 60_000
"""In one answer: it is read in one turn of the event loop, whatever a server sends. Real ones have 10 000."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,2048}")


class ListPage(NamedTuple):
    """What one call has given."""

    names: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    """Models that make neither text nor vectors."""
    next_path: str | None = None


class Listing(NamedTuple):
    """How one kind lists its models."""

    paths: tuple[str, ...]
    """The calls, at the origin of the provider's address. One that is refused is left out, unless all are."""
    read: Callable[[str, bytes], ListPage]
    """Of the answer to the call of a path. Raises `InvalidJson`."""
    hosts: tuple[str, ...]
    """Ends of the names of the cloud's own hosts."""
    key_header: tuple[str, str] = ("authorization", "Bearer ")
    """The header of a key, and what stands before it."""
    other_host: tuple[str, str] = ("", "")
    """The beginning of the host's name, and what stands there for lists."""

    def is_at_cloud(self, base_url: str) -> bool:
        """The address is one of the cloud's own, and not that of a proxy or a test."""
        host = urlsplit(base_url).hostname or ""
        return host.endswith(self.hosts)

    def origin(self, base_url: str) -> str:
        """Where the calls are made."""
        parts = urlsplit(base_url)
        before, after = self.other_host
        place = parts.netloc
        if before and place.startswith(before):
            place = after + place.removeprefix(before)
        return f"{parts.scheme}://{place}"


def listing_of(kind: str) -> Listing | None:
    """None: the gateway does not ask this kind for its models."""
    return _LISTINGS.get(kind)


def names_in(pages: Iterable[ListPage]) -> tuple[str, ...]:
    """The names of a list, each once, in their order; at most `MAX_NAMES`."""
    pages = list(pages)
    unusable = {name for page in pages for name in page.unusable}
    found = (
        name
        for name in dict.fromkeys(name for page in pages for name in page.names)
        # An inference profile has the name of its model, behind a group of regions.
        if _NAME.fullmatch(name) and name not in unusable and name.partition(".")[2] not in unusable
    )
    return tuple(islice(found, MAX_NAMES))


class _Foundation(Struct, rename="camel"):
    model_id: str
    output_modalities: list[str] = []
    inference_types_supported: list[str] = []


class _Profile(Struct, rename="camel"):
    inference_profile_id: str
    status: str = "ACTIVE"
    type: str = "SYSTEM_DEFINED"


class _Bedrock(Struct, rename="camel"):
    model_summaries: list[_Foundation] = []
    inference_profile_summaries: list[_Profile] = []
    next_token: str | None = None


class _Publisher(Struct, rename="camel"):
    name: str
    version_id: str = ""


class _Vertex(Struct, rename="camel"):
    publisher_models: list[_Publisher] = []
    next_page_token: str = ""


class _Item(Struct):
    id: str
    status: str = "succeeded"


class _Items(Struct):
    data: list[_Item] = []


_bedrock = msgspec.json.Decoder(_Bedrock)
_vertex = msgspec.json.Decoder(_Vertex)
_items = msgspec.json.Decoder(_Items)


def _decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    if body.count(b'"') > _MAX_QUOTES:
        raise InvalidJson("The list of models has too many members.")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson("The list of models cannot be read.") from None


def _read_bedrock(path: str, body: bytes) -> ListPage:
    answer = _decode(_bedrock, body)
    is_of_text = {
        each.model_id: "TEXT" in each.output_modalities or "EMBEDDING" in each.output_modalities
        for each in answer.model_summaries
    }
    names = [
        each.model_id
        for each in answer.model_summaries
        if is_of_text[each.model_id] and "ON_DEMAND" in each.inference_types_supported
    ]
    names += [
        each.inference_profile_id
        for each in answer.inference_profile_summaries
        # Those of the account are called by ARNs, which name the account.
        if each.status == "ACTIVE" and each.type == "SYSTEM_DEFINED"
    ]
    unusable = tuple(name for name, is_usable in is_of_text.items() if not is_usable)
    return ListPage(tuple(names), unusable, _next(path, "nextToken", answer.next_token))


_GOOGLES = re.compile(r"gemini-(?!.*(?:live|native-audio|tts))|text-(?:multilingual-)?embedding-")
_VERSION = re.compile(r"20[0-9]{6}")


def _read_vertex(path: str, body: bytes) -> ListPage:
    answer = _decode(_vertex, body)
    names = []
    for each in answer.publisher_models:
        _, publisher, _, model = [*each.name.split("/"), "", "", "", ""][:4]  # publishers/PUBLISHER/models/MODEL
        if publisher == "google" and _GOOGLES.match(model):
            names.append(model)
        elif publisher == "anthropic" and model.startswith("claude-"):
            names.append(f"{model}@{each.version_id}" if _VERSION.fullmatch(each.version_id) else model)
        elif publisher not in ("google", "anthropic") and model.endswith("-maas"):
            names.append(f"{publisher}/{model}")
    return ListPage(tuple(names), (), _next(path, "pageToken", answer.next_page_token))


def _read_items(_path: str, body: bytes) -> ListPage:
    return ListPage(tuple(each.id for each in _decode(_items, body).data if each.status == "succeeded"))


def _next(path: str, name: str, token: str | None) -> str | None:
    if not token or not _TOKEN.fullmatch(token):
        return None
    return f"{path.partition(f'&{name}=')[0]}&{name}={quote(token, safe='')}"


_PUBLISHERS = ("google", "anthropic", "meta", "deepseek-ai", "qwen", "openai", "moonshotai", "zai-org", "minimaxai")
_LISTINGS = {
    "bedrock": Listing(
        paths=("/foundation-models", "/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED"),
        read=_read_bedrock,
        hosts=(".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"),
        other_host=("bedrock-runtime", "bedrock"),
    ),
    "bedrock-mantle": Listing(
        paths=("/v1/models",),
        read=_read_items,
        hosts=(".api.aws", ".api.amazonwebservices.com.cn", ".api.amazonwebservices.eu"),
    ),
    "vertex": Listing(
        paths=tuple(f"/v1beta1/publishers/{name}/models?pageSize=100" for name in _PUBLISHERS),
        read=_read_vertex,
        hosts=(".googleapis.com",),
    ),
    "azure": Listing(
        # The newest version that lists deployments: later ones have left it to Azure's management API.
        paths=("/openai/deployments?api-version=2023-03-15-preview",),
        read=_read_items,
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com", ".openai.azure.us"),
        key_header=("api-key", ""),
    ),
}
