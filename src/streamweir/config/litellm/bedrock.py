"""Converts the parameters of a deployment at Amazon Bedrock: its region, and how its requests are signed."""

import re
from typing import Any

from streamweir.config.litellm.report import Unusable
from streamweir.config.litellm.tree import Branch
from streamweir.config.litellm.variable import REFERENCE, Variables, is_placeholder

ENDPOINT = "aws_bedrock_runtime_endpoint"
"""The parameter with its address, beside those of all providers."""

_REGION = re.compile(r"[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}")
_PLAIN = {
    "aws_access_key_id": "access_key_id",
    "aws_profile_name": "profile",
    "aws_role_name": "role_arn",
    "aws_session_name": "session_name",
    "aws_sts_endpoint": "sts_url",
}
_SECRET = {
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "aws_external_id": "external_id",
}
_DEFAULT_REGION = "${AWS_REGION_NAME:-us-west-2}"


def region_in(model: str) -> str | None:
    """`bedrock/us-east-1/MODEL`, also after the name of a route."""
    parts = model.split("/")[:-1]
    return next((part for part in parts if _REGION.fullmatch(part)), None) if not model.startswith("arn:") else None


def take_bedrock(params: Branch, variables: Variables, name: str, of_model: str | None) -> dict[str, Any]:
    """`name`: of the provider, for variables that must be named here. `of_model`: the region in the model's name."""
    region = params.take_text("aws_region_name")
    if region is not None and not region.startswith(REFERENCE) and not _REGION.fullmatch(region):
        raise Unusable("its aws_region_name is not the name of a region")
    key = params.get("api_key")
    if isinstance(key, str) and not is_placeholder(key):
        for each in (*_PLAIN, *_SECRET):
            if params.take_text(each) is not None:
                params.drop(each, "api_key is used, and requests are not signed")
        aws: dict[str, str] = {}
    else:
        aws = _take_aws(params, variables, name)
    table: dict[str, Any] = {"region": of_model or _DEFAULT_REGION}
    if region is not None:
        table["region"] = variables.text(region, params.place("aws_region_name"))
    return {**table, "aws": aws} if aws else table


def _take_aws(params: Branch, variables: Variables, name: str) -> dict[str, str]:
    aws: dict[str, str] = {}
    for theirs, ours in _PLAIN.items():
        value = params.take_text(theirs)
        if value is not None:
            aws[ours] = variables.text(value, params.place(theirs))
    for theirs, ours in _SECRET.items():
        value = params.take_text(theirs)
        if value is not None:
            aws[ours] = variables.secret(value, params.place(theirs), f"{name}_{ours}")
    if len({"access_key_id", "secret_access_key"} & aws.keys()) == 1:
        raise Unusable("its access key has no id or no secret")
    return aws
