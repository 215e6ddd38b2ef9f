"""Every frontend by name and by path: the one place that lists them.

A frontend is added here, and nowhere else. Names, prefixes and paths are unique, except for paths that several
frontends share: for those, the `dialect` of the key or of the configuration chooses the frontend.
"""

from collections.abc import Iterable

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Frontend
from streamweir.frontends.chat.frontend import CHAT_FRONTENDS
from streamweir.frontends.completions.frontend import COMPLETIONS
from streamweir.frontends.embeddings.frontend import EMBEDDINGS
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.responses.frontend import RESPONSES

_MAX_SIMILAR_LENGTH = 100
_RESOURCES = frozenset({"/v1/models", "/v1/key"})
"""Paths that belong to no API."""


class FrontendTable:
    def __init__(self, frontends: Iterable[Frontend]) -> None:
        self.by_name: dict[str, Frontend] = {}
        self.by_path: dict[str, Frontend | None] = {}
        """None: several frontends share the path."""
        self.by_count_path: dict[str, Frontend] = {}
        self.by_prefix: dict[str, Frontend] = {}
        self.by_client_header: dict[str, Frontend] = {}
        for frontend in frontends:
            self.add(frontend)

    def add(self, frontend: Frontend) -> None:
        if frontend.name in self.by_name:
            raise ValueError(f"there is a frontend {frontend.name!r} already")
        if frontend.prefix and frontend.prefix in self.by_prefix:
            raise ValueError(f"the prefix {frontend.prefix!r} is that of {self.by_prefix[frontend.prefix].name!r}")
        self.by_name[frontend.name] = frontend
        if frontend.prefix:
            self.by_prefix[frontend.prefix] = frontend
        if frontend.client_header:
            self.by_client_header[frontend.client_header] = frontend
        for path in frontend.paths:
            self.by_path[path] = frontend if path not in self.by_path else None
        self.by_count_path.update(dict.fromkeys(frontend.count_paths, frontend))

    def remove(self, frontend: Frontend) -> None:
        rest = [other for other in self.by_name.values() if other is not frontend]
        for index in (self.by_name, self.by_path, self.by_count_path, self.by_prefix, self.by_client_header):
            index.clear()
        for other in rest:
            self.add(other)

    def served_path(self, path: str) -> str | None:
        """The path that is served instead of a similar one: without `/v1`, with it twice, or behind something else."""
        if len(path) > _MAX_SIMILAR_LENGTH:
            return None
        segments = [segment for segment in path.split("/") if segment not in ("", "v1")]
        prefix = f"/{segments[0]}" if segments and segments[0] in self.by_prefix else ""
        for first in range(len(segments)):
            served = "/v1/" + "/".join(segments[first:])
            if served in _RESOURCES or served in self.by_count_path or served in self.by_path:
                behind_prefix = prefix + served
                return behind_prefix if behind_prefix in self.by_path else served
        return None

    @property
    def dialects(self) -> list[str]:
        """The valid values of `dialect`: the names of frontends that share a path."""
        return [name for name, each in self.by_name.items() if any(self.by_path[path] is None for path in each.paths)]

    @property
    def in_playground(self) -> list[str]:
        """The names of the APIs that the playground offers."""
        return [name for name, each in self.by_name.items() if each.in_playground]


def unknown_url(method: str, path: str) -> CallerError:
    """The error for a path that is not served, with the one that was probably meant."""
    meant = FRONTENDS.served_path(path)
    hint = f" Did you mean {meant}?" if meant is not None and meant != path else ""
    return CallerError("unknown_url", f"Unknown request URL: {method} {path[:200]}.{hint}")


FRONTENDS = FrontendTable((*CHAT_FRONTENDS, MESSAGES, RESPONSES, EMBEDDINGS, COMPLETIONS))
