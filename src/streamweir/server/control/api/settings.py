"""The configuration over the API, read-only and for the operator only. It is changed in the file.

Secrets are masked (`config.settings`). Settings that a reload does not change are shown as they are in the file now,
because the next start will use those.
"""

from msgspec import Struct

from streamweir import __version__
from streamweir.config.secret import masked_url
from streamweir.config.settings import Section, sections_of
from streamweir.policy.permission import Permission
from streamweir.server.control.api.operation import Call, Nothing, Operation


class Settings(Struct, kw_only=True):
    version: str
    """The version of the gateway."""
    started_ms: int
    """When this process was started."""
    instance: str
    file: str | None
    """None: it was started without a file."""
    store: str
    sections: list[Section]


async def show_settings(call: Call[Nothing, Nothing]) -> Settings:
    context = call.context
    config = context.runtime().config
    return Settings(
        version=__version__,
        started_ms=context.started_ms,
        instance=context.accounting.instance,
        file=context.file,
        store=masked_url(config.store.url),
        sections=sections_of(config),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/settings",
        access=Permission.SETTINGS_READ,
        about="Show the configuration, with secrets masked",
        handler=show_settings,
        answer=Settings,
    ),
)
