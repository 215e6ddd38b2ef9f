"""The routes of the console: its page, and the files that belong to it.

    /console, /console/{anything}   the page; it chooses its content by the path
    /console/{file of the build}    that file; below `assets/` there is nothing else

They are public, because they contain no data: the page gets its data from `/api`. Without a page, the answer is one
sentence with the reason. `server.http.security_headers` adds the security headers.
"""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.console.assets import PAGE, Assets
from streamweir.server.control.routing import Access, OpenRoute, plain_response, request_of

NOT_BUILT = "The console is not built: run `make install`, or install a release wheel."
NO_DATABASE = 'The console needs a database, and store.url is "none" in the configuration.'
_FILES = "assets/"


def console_routes(assets: Assets, *, has_database: bool) -> list[OpenRoute]:
    async def show(request: HttpRequest) -> HttpResponse:
        if not has_database or not assets.has_page:
            return plain_response(NOT_BUILT if has_database else NO_DATABASE, 404)
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
    except OSError:  # it was rebuilt since the start: the new names are known after the next start
        raise HTTPException(404) from None
    headers = {"content-type": asset.content_type, "vary": "accept-encoding"}
    if asset.is_gzip:
        headers["content-encoding"] = "gzip"
    return HttpResponse(asset.body, headers=headers)


def accepts_gzip(accepted: str) -> bool:
    """By the header `accept-encoding`. An encoding that is absent, or has the weight 0, is not used."""
    for each in accepted.lower().split(","):
        name, _, weight = each.replace(" ", "").replace("\t", "").partition(";q=")
        if name in ("gzip", "x-gzip"):
            return not weight or weight.strip("0.") != ""
    return False
