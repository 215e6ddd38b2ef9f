"""The paths of Vertex AI: a project, a location, a publisher and its model."""

from urllib.parse import quote

from streamweir.providers.base import Target


def folder_of(target: Target) -> str:
    """What stands before everything of this project in this location."""
    project, location = quote(target.project or "", safe=""), quote(target.location or "global", safe="")
    return f"/projects/{project}/locations/{location}"


def model_path(target: Target, publisher: str, model: str) -> str:
    """`model`: with or without its publisher. An `@` before a version stays as it is."""
    name = model.removeprefix(f"publishers/{publisher}/").removeprefix("models/").removeprefix(f"{publisher}/")
    return f"{folder_of(target)}/publishers/{publisher}/models/{quote(name, safe='@')}"


def key_header(target: Target) -> tuple[tuple[str, str], ...]:
    """An access token in the operator's file. Else the headers are added where the request is sent."""
    return (("authorization", f"Bearer {target.api_key}"),) if target.api_key else ()
