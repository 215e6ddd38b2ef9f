"""A page of the console, as the API sees it: how it logs in, and what it sends afterwards."""

from typing import Any

import httpx2

from support.api import HOST, Api, Role

ORIGIN = f"http://{HOST}"


async def log_in(api: Api, secret: str, **more: Any) -> httpx2.Response:
    return await api.ask("POST", "/api/session", body={"secret": secret}, **more)


def token_of(reply: httpx2.Response) -> str:
    return reply.headers["set-cookie"].partition(";")[0].partition("=")[2]


def page(token: str, csrf: str | None = None, origin: str = ORIGIN) -> Role:
    headers = {"cookie": f"streamweir={token}", "origin": origin}
    return {"headers": headers if csrf is None else {**headers, "x-csrf-token": csrf}}


async def make_workspace(api: Api, role: Role, name: str = "made") -> int:
    return (await api.ask("POST", "/api/workspaces", body={"name": name}, **role)).status_code
