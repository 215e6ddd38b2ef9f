"""The routes of the console: its page, and the files that the page is made of.

    /console, /console/{anything}   the page, whatever it shows there: it finds out by itself
    /console/{file of the build}    that file; below `assets/` there is nothing else

They are open to all, for there is nothing in them: what the page shows it asks `/api` for. Where there
is no page, one sentence says why. What guards an answer is `server.http.security_headers`'s.
"""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.console.assets import PAGE, Assets
from streamweir.server.control.routing import Access, OpenRoute, plain_response, request_of

NOT_BUILT = "The console is not built: run `make install`, or install a release wheel."
NO_BOOKS = 'The console needs a database, and store.url is "none" in the configuration.'
_FILES = "assets/"


def console_routes(assets: Assets, *, has_books: bool) -> list[OpenRoute]:
    async def show(request: HttpRequest) -> HttpResponse:
        if not has_books or not assets.has_page:
            return plain_response(NOT_BUILT if has_books else NO_BOOKS, 404)
        name = request.path_params.get("path", "")
        if name not in assets:
            if name.startswith(_FILES):
                raise HTTPException(404)
            name = PAGE
        return await _file(request, assets, name)

    return [
        OpenRoute("/console", show, access=Access.ANYONE),
        OpenRoute("/console/{path:path}", show, access=Access.ANYONE),
    ]


async def _file(request: HttpRequest, assets: Assets, name: str) -> HttpResponse:
    takes_gzip = accepts_gzip(request_of(request.scope).headers.get("accept-encoding", ""))
    try:
        asset = await asyncio.to_thread(assets.load, name, gzip=takes_gzip)
    except OSError:  # built anew since the start: the next start knows the new names
        raise HTTPException(404) from None
    headers = {"content-type": asset.content_type, "vary": "accept-encoding"}
    if asset.is_gzip:
        headers["content-encoding"] = "gzip"
    return HttpResponse(asset.body, headers=headers)


def accepts_gzip(accepted: str) -> bool:
    """By a header `accept-encoding`. What it does not name is not sent, nor what it gives no weight."""
    for each in accepted.lower().split(","):
        name, _, weight = each.replace(" ", "").replace("\t", "").partition(";q=")
        if name in ("gzip", "x-gzip"):
            return not weight or weight.strip("0.") != ""
    return False
