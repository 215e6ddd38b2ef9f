"""Types of body members and query parameters, with their limits.

Money is exact dollars, as text or as a number, and is read as decimal digits, never as a float. Times are Unix
milliseconds.
"""

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from streamweir.core.errors import CallerError
from streamweir.policy.limits.budget import nano_of
from streamweir.policy.routing.route import MAX_NAME_LENGTH as MAX_MODEL_LENGTH
from streamweir.store.keys.credit import MAX_NOTE_LENGTH
from streamweir.store.keys.spec import LAST_MS, MAX_MODELS
from streamweir.store.keys.workspaces import MAX_NAME_LENGTH

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Note = Annotated[str, Meta(max_length=MAX_NOTE_LENGTH)]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of rows per page.")]
Seq = Annotated[int, Meta(ge=1, le=2**63 - 1, description="`next` of the previous page.")]
Cursor = Annotated[str, Meta(max_length=256, description="`next` of the previous page.")]
Moment = Annotated[int, Meta(ge=0, le=LAST_MS, description="Unix milliseconds.")]
Dollars = Annotated[Decimal, Meta(description="Exact US dollars, as text or as a number.")]
Models = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=MAX_MODEL_LENGTH)], ...], Meta(max_length=MAX_MODELS)
]
Scope = Literal["chat", "models", "admin", "metrics"]
Scopes = Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=16)]
Period = Literal["day", "week", "month", "total"]
WorkspaceName = Annotated[str, Meta(max_length=256, description="A workspace, by name or id.")]
Email = Annotated[str, Meta(min_length=3, max_length=254, description="An e-mail address.")]
PersonId = Annotated[str, Meta(max_length=256, description="The id of a person.")]
PersonRole = Literal["owner", "operator", "billing", "viewer", "admin", "member"]
EndUser = Annotated[
    str,
    Meta(description='An end user, as the caller named it. With `end_user` of the store "hash" its digest works, too.'),
]

PAGE = 50


def nano(dollars: Decimal, param: str) -> int:
    try:
        return nano_of(dollars)
    except ValueError as reason:
        raise CallerError("invalid_value", f"Expected an amount in dollars: {reason}.", param=param) from None
