"""The settings of a client, and what is built from them: requests, readers, and errors without the key."""

import random
import time
import uuid
from collections.abc import Mapping
from typing import Any

import httpx2

from streamweir.client.api import CHAT, MESSAGES, RESPONSES, Api, check_api, make_reader
from streamweir.client.error import ClientError, RequestFailed, Unreachable
from streamweir.client.failed_response import mask_secret, read_failure, request_id_of
from streamweir.client.reader import Limits, Reader
from streamweir.client.request import (
    Messages,
    build_body,
    build_headers,
    endpoint_url,
    is_valid_header_value,
    messages_headers,
    shown_url,
)
from streamweir.client.resume import Resume, Resumption, is_stream_id
from streamweir.client.timeouts import Attempts, Retries, Timeouts
from streamweir.frontends.chat.dialect import Dialect

_PATHS: dict[Api, str] = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}

_STREAM_ID = "x-streamweir-stream"
_OF_BEGINNING = frozenset(
    {"host", "content-type", "content-length", "transfer-encoding", "idempotency-key", "x-streamweir-resumable"}
)
"""Headers of the request that began a stream, and of no other."""
_DELETE_S = 2.0


class Settings:
    """The settings of a client, and what is built from them for each attempt."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        api: Api,
        dialect: str | Dialect | None,
        timeouts: Timeouts,
        retries: Retries | int,
        limits: Limits,
        headers: Mapping[str, str],
        resume: Resume | None,
    ) -> None:
        if not is_valid_header_value(api_key):
            raise ValueError("api_key holds signs that no header can carry")
        self._dialect = check_api(api, dialect)
        self._api = api
        self.timeouts = timeouts
        self.retries = Retries(most=retries) if isinstance(retries, int) else retries
        self.limits = limits
        self.resume = resume
        self._url = endpoint_url(base_url, _PATHS[api])
        self._api_key = api_key
        self._headers = {**(messages_headers(api_key) if api == MESSAGES else {}), **headers}

    def __repr__(self) -> str:
        """Contains no secret."""
        spoken = f"api={self._api!r}" if self._api != CHAT else f"dialect={self._dialect.name!r}"
        return f"{shown_url(self._url)!r}, {spoken}"

    @property
    def always_streams(self) -> bool:
        """There are no whole answers."""
        return self._api == CHAT and self._dialect.whole_object is None

    def body(
        self,
        model: str | None,
        messages: Messages,
        parameters: Mapping[str, Any],
        *,
        stream: bool,
        include_usage: bool = True,
    ) -> bytes:
        include_usage = include_usage and self._api == CHAT  # the others always have it
        prompt = "input" if self._api == RESPONSES else "messages"
        return build_body(model, messages, parameters, stream=stream, include_usage=include_usage, prompt=prompt)

    def request(
        self, http: httpx2.Client | httpx2.AsyncClient, body: bytes, headers: Mapping[str, str] | None, *, stream: bool
    ) -> httpx2.Request:
        timeouts = self.timeouts
        return http.build_request(
            "POST",
            self._url,
            content=body,
            headers=build_headers(self._api_key, {**self._headers, **(headers or {})}, stream=stream),
            timeout=httpx2.Timeout(
                connect=timeouts.connect_s,
                read=timeouts.first_event_s,
                write=timeouts.first_event_s,
                pool=timeouts.connect_s,
            ),
        )

    def resume_headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        """Asks for a stream that can be resumed. A repetition of the request leads to the same stream by its key."""
        chosen = {name.lower(): value for name, value in (headers or {}).items()}
        return {"x-streamweir-resumable": "true", "idempotency-key": str(uuid.uuid4()), **chosen}

    def stream_request(
        self, http: httpx2.Client | httpx2.AsyncClient, resumption: Resumption, headers: httpx2.Headers, method: str
    ) -> httpx2.Request:
        """For the rest of a stream (GET), or for its end (DELETE). `headers`: those of the request that began it."""
        path = f"{self._url.partition('?')[0].removesuffix(_PATHS[self._api])}/streams/{resumption.stream_id}"
        kept = {name: headers[name] for name in headers if name not in _OF_BEGINNING}
        if method == "DELETE":
            return http.build_request(method, path, headers=kept, timeout=_DELETE_S)
        timeout = httpx2.Timeout(self.timeouts.connect_s, read=resumption.silence_s)
        return http.build_request(method, path, params={"after": str(resumption.events)}, headers=kept, timeout=timeout)

    def resumption(self, response: httpx2.Response) -> Resumption | None:
        """If the client asked for it and the server has named the stream."""
        stream_id = response.headers.get(_STREAM_ID, "")
        if self.resume is None or not is_stream_id(stream_id):
            return None
        return Resumption(stream_id, self.resume, self.limits.event_bytes, random.random)

    @property
    def head_s(self) -> float | None:
        """The time limit for the status, including the connection."""
        connect_s, first_s = self.timeouts.connect_s, self.timeouts.first_event_s
        return None if connect_s is None or first_s is None else connect_s + first_s

    def reader(self, n: int | None) -> Reader:
        dialect = None if self._api != CHAT else self._dialect
        return make_reader(self._api, dialect, self.limits, secret=self._api_key, n=n)

    def attempts(self) -> Attempts:
        return Attempts(self.retries, random.random)

    def connection_error(self, reason: httpx2.RequestError, reader: Reader) -> ClientError:
        """The error if no status was received."""
        if isinstance(reason, httpx2.ReadTimeout | httpx2.WriteTimeout):
            return reader.time_out(self.timeouts.first_event_s or 0.0)
        return Unreachable(f"{shown_url(self._url)} cannot be reached: {self.describe(reason)}")

    def describe(self, reason: httpx2.RequestError) -> str:
        return mask_secret(str(reason), self._api_key) or type(reason).__name__

    def failure(self, response: httpx2.Response, body: bytes) -> RequestFailed:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return read_failure(response.status_code, headers, body, now=time.time(), secret=self._api_key)

    def response_started(self, response: httpx2.Response, request: httpx2.Request, reader: Reader) -> None:
        """A success: from now on the deadline for events applies, not httpx2's timeout for reads."""
        reader.answer.request_id = request_id_of(response.headers, self._api_key)
        request.extensions["timeout"]["read"] = None
