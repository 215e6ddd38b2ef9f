"""An error in the format of OpenAI's APIs, for frontends without a format of their own."""

from streamweir.core.errors import StreamweirError
from streamweir.frontends.base import ErrorResponse
from streamweir.wire import jsonio


def write_openai_error(error: StreamweirError) -> ErrorResponse:
    members = {"message": error.message, "type": error.spec.type, "param": error.param, "code": error.code}
    if error.event_id is not None:
        members["event_id"] = error.event_id
    return ErrorResponse(error.spec.status, jsonio.encode({"error": members}))
