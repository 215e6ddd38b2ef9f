"""What is configured, over the API: to be read, by the operator alone. It is changed in the file.

Secrets are masked (`config.settings`). What a start needs and a reload does not change is shown as the
file has it now, for that is what the next start will go by.
"""

from msgspec import Struct

from streamweir import __version__
from streamweir.config.secret import masked_url
from streamweir.config.settings import Section, sections_of
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.routing import Access


class Settings(Struct, kw_only=True):
    version: str
    """Of the program."""
    started_ms: int
    """Of the process that answers, as the next."""
    instance: str
    file: str | None
    """None: it was started without one."""
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
        access=Access.OPERATOR,
        about="Show the configuration, with secrets masked",
        handler=show_settings,
        answer=Settings,
    ),
)
