"""A request whose key this process does not know yet: it waits, with its body unread, for a refresh of the keys.

Then it begins again as if it had arrived then: `Application.begin` finds the key, or refuses the request. The cost and
the frequency of look-ups are limited in `server.accounting.key_lookup`.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.policy.access import read_secret
from streamweir.server.accounting.key_lookup import KeyLookup
from streamweir.server.http.message import Application, Request, Response


class KeyWaits:
    def __init__(self, lookup: KeyLookup | None, app: Application, on_gone: Callable[[Request], None]) -> None:
        """`lookup`: None if there is no database. `on_gone` is called if a caller disconnects while it waits."""
        self._lookup = lookup
        self._app = app
        self._on_gone = on_gone
        self._tasks: set[asyncio.Task[None]] = set()

    def wait(self, request: Request, response: Response) -> bool:
        """False: there is nothing to wait for."""
        secret = read_secret(request.headers)
        if secret is None or self._lookup is None or not self._lookup.may_find(secret):
            return False
        task = asyncio.get_running_loop().create_task(self._begin_later(secret, request, response))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        response.on_gone = partial(self._gone, request, task)
        return True

    async def close(self) -> None:
        """Cancels all waiting requests."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._lookup is not None:
            await self._lookup.close()

    async def find(self, secret: str) -> None:
        """See `KeyLookup.find`."""
        if self._lookup is not None:
            await self._lookup.find(secret)

    async def _begin_later(self, secret: str, request: Request, response: Response) -> None:
        try:
            await self.find(secret)
        except GatewayFault as error:
            response.send(self._app.refuse(request, error))
            return
        response.on_gone = None
        if not self._app.begin(request, response):
            response.read_body(None, partial(self._serve, request, response))

    def _serve(self, request: Request, response: Response, error: StreamweirError | None) -> None:
        if error is None:
            self._app.serve(request, response)
        else:
            response.send(self._app.refuse(request, error))

    def _gone(self, request: Request, task: "asyncio.Task[None]") -> None:
        task.cancel()
        self._on_gone(request)
