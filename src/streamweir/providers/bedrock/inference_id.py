"""The names of models at Amazon Bedrock, and their places in a path.

A name is the id of a model (`anthropic.claude-sonnet-4-5-20250929-v1:0`), the id of an inference profile, which begins
with the geography in which requests are served (`eu.anthropic...`, `global.anthropic...`), or the ARN of a model, a
profile, a router or provisioned capacity. Only the first two say which model answers; so does the ARN of either.
"""

import re
from urllib.parse import quote

_GEOGRAPHY = re.compile(r"(?:af|apac|au|ca|eu|global|il|in|jp|kr|me|mx|sa|uk|us|us-gov)\.")
_ARN = re.compile(r"arn:[^:/]+:bedrock:[^:/]*:[^:/]*:(?P<kind>[a-z-]+)/(?P<name>.+)")
_NAMING = ("foundation-model", "inference-profile")


def model_path(model: str, operation: str) -> str:
    """The name is encoded whole: the colon of a version and the slashes of an ARN do not belong to the path."""
    return f"/model/{quote(model, safe='')}/{operation}"


def foundation_model(model: str) -> str | None:
    """The id of the model itself, without a geography. None: the name does not say which model it is."""
    arn = _ARN.fullmatch(model)
    if arn is not None:
        if arn["kind"] not in _NAMING:
            return None
        model = arn["name"]
    geography = _GEOGRAPHY.match(model)
    return model if geography is None else model[geography.end() :]
