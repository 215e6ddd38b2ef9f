"""The configuration in use over the API, read-only and for those who run the gateway. It is changed in the file.

Secrets are masked (`config.display.mask`). Settings that a reload does not change are shown as they are in the file
now, because the next start will use those. Reloads are those of the process that answers: all processes of a gateway
reload together.
"""

import asyncio

from msgspec import Struct

from streamweir import __version__
from streamweir.config.display.effective import Section, sections_of
from streamweir.config.display.origin import Origins
from streamweir.config.reload_log import Reload
from streamweir.config.secret import masked_url
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
    """Each line of all sections, one below the other, is the configuration as TOML."""
    reloads: list[Reload]
    """The last ones of this process, the newest first."""


async def show_settings(call: Call[Nothing, Nothing]) -> Settings:
    context = call.context
    config, source = context.runtime().config, context.source
    origins = source.origins() if source is not None else Origins()
    return Settings(
        version=__version__,
        started_ms=context.started_ms,
        instance=context.accounting.instance,
        file=source.file if source is not None else None,
        store=masked_url(config.store.url),
        sections=await asyncio.to_thread(sections_of, config, origins),
        reloads=source.log.reloads if source is not None else [],
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/settings",
        access=Permission.SETTINGS_READ,
        about="Show the configuration as TOML, with the origin of each value and secrets masked, and the last reloads",
        handler=show_settings,
        answer=Settings,
    ),
)
