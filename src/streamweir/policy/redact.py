"""Removes secrets from text before it is stored: by their form, and by patterns of the operator.

It works only on text, of any source. Cuts do not hide a secret: JSON is decoded before it is searched (an escape could
separate a key from the line before it), and a text that was streamed in small pieces is searched as one. A text is
searched in windows, because the interpreter is blocked while a pattern runs.

A pattern of the operator is a Python regular expression, in which `^` and `$` are the ends of a line; only a group
named `secret` is masked, else the whole match. It is trusted to terminate.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from streamweir.wire import jsonio

HIDDEN = "***"
MARGIN = 4096
"""How much of the text after a match can decide about it, at most. A match itself may be longer."""
_WINDOW = 4 * MARGIN


def _word(first: str, rest: str) -> str:
    """`rest` after `first`, at the beginning of a word. The first letter is in front, so that the search can skip
    to it.

    An escaped newline before it, in JSON inside of JSON, is not part of the word.
    """
    return rf"{first}(?:(?<![A-Za-z0-9_]{first})|(?<=\\[bfnrt]{first})){rest}"


_LONG = r"(?=[\w-]{0,200}\d)[\w-]{12,}"
_SHAPES = re.compile(
    "|".join(
        (
            _word("s", rf"(?:k|w-(?:admin|session|csrf))[-_]{_LONG}"),
            _word("p", rf"(?:k|plx)[-_]{_LONG}"),
            _word("r", rf"k[-_]{_LONG}"),
            _word("g", r"(?:sk_[A-Za-z0-9]{16,}|h[pousr]_[A-Za-z0-9]{16,}|ithub_pat_\w{16,}|lpat-[\w-]{12,})"),
            _word("x", r"(?:ai-[\w-]{16,}|ox[abeoprs]-[\w-]{10,}|app-\d-[\w-]{10,})"),
            _word("h", r"f_[A-Za-z0-9]{16,}"),
            _word("n", r"(?:vapi-[\w-]{16,}|pm_[A-Za-z0-9]{16,})"),
            _word("c", rf"sk-{_LONG}"),
            _word("f", r"w_[A-Za-z0-9]{16,}"),
            _word("A", r"(?:Iza[\w-]{20,}|(?:KIA|SIA)[A-Z0-9]{12,})"),
            _word("e", r"yJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"),
            _word("y", r"a29\.[\w-]{16,}"),
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\w+/=\s\\:,.]{0,65536}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
        )
    ),
    re.ASCII,
)
_BEARER = re.compile(r"[Bb](?i:earer|asic)\s{1,8}(?P<secret>(?=[\w.+/=~-]{0,200}[\d=])[\w.+/=~-]{8,})", re.ASCII)
_USERINFO = re.compile(r"://[^\s/@:\"'\\]{0,256}:(?P<secret>[^\s/@\"'\\]{1,256})@")
_ASSIGNED = re.compile(
    r"[AaCcPpSs](?i:pi[-_ ]?key|ccess[-_]?token|uth[-_]?token|lient[-_]?secret|assword|asswd|wd"
    r"|ecret[-_]?(?:access[-_]?)?key)"
    r"""\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?(?P<secret>[^\s"'\\,;&{}<>()\[\]]{6,4096})""",
    re.ASCII,
)
_ESCAPE = "\\u"
_BETWEEN = "\n" * 8
"""More than a secret can contain."""
_BUILT_IN = (_SHAPES, _BEARER, _USERINFO, _ASSIGNED)

_TOKEN = re.compile(r'"(?P<text>(?:[^"\\]++|\\.)*+)(?:"(?P<name>\s*:)?)?')
"""A JSON string, possibly incomplete, and whether it is the name of a member."""
_INDEX = re.compile(r'"index"\s*:\s*(\d+)')

Frame = tuple[int, str]
"""Milliseconds since the arrival of the request, and text: a stream of text, cut anywhere."""
_Span = tuple[int, int]


class _Piece(NamedTuple):
    """A string inside a document, by the object or list that contains it."""

    text: str
    container: Any
    name: Any


class _Value(NamedTuple):
    """A JSON string in a stream: its position, and its value."""

    start: int
    end: int
    text: str


class Redactor:
    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Raises ValueError for an invalid pattern, or one that matches the empty text."""
        self._patterns = (*_BUILT_IN, *map(_compile, patterns))

    def text(self, text: str) -> str:
        """Cut a text only afterwards: half a secret is not recognised."""
        return "".join(_redacted_parts(text, self._spans(text), len(text)))

    def document(self, text: str) -> str:
        """JSON, or invalid JSON: every string in it, then the whole as a text, for the names of members."""
        try:
            root = [jsonio.decode(text.encode("utf-8", "surrogatepass"))]
        except jsonio.InvalidJson:
            return self.text(text)
        pieces = list(_strings(root))
        texts = self._redact_each([piece.text for piece in pieces])
        for piece, kept in zip(pieces, texts, strict=True):
            piece.container[piece.name] = kept
        is_changed = any(piece.text != kept for piece, kept in zip(pieces, texts, strict=True))
        return self.text(jsonio.encode(root[0]).decode() if is_changed or _ESCAPE in text else text)

    def frames(self, frames: Sequence[Frame]) -> list[Frame]:
        """The mask of a secret is in the frame where it began; in the following frames it is left out."""
        whole = "".join(text for _, text in frames)
        changes = sorted(change for values in _values(whole) for change in self._changes(values))
        texts = _rewritten(whole, changes, [len(text) for _, text in frames])
        whole = "".join(texts)
        spans = [(start, stop, HIDDEN) for start, stop in self._spans(whole)]
        texts = _rewritten(whole, spans, [len(text) for text in texts])
        return [(at, text) for (at, _), text in zip(frames, texts, strict=True)]

    def _redact_each(self, texts: Sequence[str]) -> list[str]:
        """Each by itself, in one search."""
        whole = _BETWEEN.join(texts)
        spans = self._spans(whole)
        if not spans:
            return list(texts)
        ends = list(accumulate(len(text) + len(_BETWEEN) for text in texts))
        return [
            "".join(_redacted_parts(whole, spans, end - len(_BETWEEN), end - len(_BETWEEN) - len(text)))
            for text, end in zip(texts, ends, strict=True)
        ]

    def _changes(self, values: Sequence[_Value]) -> Iterator[tuple[int, int, str]]:
        """For values that form one text: those that contain a part of a secret, and their new values."""
        whole = "".join(value.text for value in values)
        spans = self._spans(whole)
        start = 0
        for value in values if spans else ():
            end = start + len(value.text)
            kept = "".join(_redacted_parts(whole, spans, end, start))
            if kept != value.text:
                yield value.start, value.end, jsonio.encode(kept).decode()[1:-1]
            start = end

    def _spans(self, text: str) -> list[_Span]:
        """The parts to mask, in order and without overlap."""
        found = sorted(span for pattern in self._patterns for span in _search(pattern, text))
        merged: list[_Span] = []
        for start, stop in found:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return merged


def _compile(source: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(source, re.MULTILINE)
    except re.error as reason:
        raise ValueError(f"{source!r} is not a regular expression: {reason}") from reason
    if pattern.search("") is not None:
        raise ValueError(f"{source!r} matches an empty text")
    return pattern


def _search(pattern: re.Pattern[str], text: str) -> Iterator[_Span]:
    """Like `finditer`, in windows: what is near the end of a window is searched again in the next."""
    at, window = 0, _WINDOW
    while at < len(text):
        stop = min(at + window, len(text))
        found = pattern.search(text, at, stop)
        if found is None:
            if stop == len(text):
                return
            at, window = stop - MARGIN, _WINDOW
            continue
        if stop < len(text) and found.end() > stop - MARGIN:
            if found.start() > at:
                at, window = found.start(), _WINDOW
            else:
                window *= 2
            continue
        name = "secret" if "secret" in pattern.groupindex and found["secret"] is not None else 0
        if found.start(name) < found.end(name):
            yield found.span(name)
        at, window = max(found.end(), at + 1), _WINDOW


def _redacted_parts(text: str, spans: Sequence[_Span], end: int, start: int = 0) -> Iterator[str]:
    """A part of the text. A span that began before the part has its mask there."""
    for number in range(bisect_right(spans, start, key=itemgetter(1)), len(spans)):
        first, last = spans[number]
        if first >= end:
            break
        if first >= start:
            yield text[start:first]
            yield HIDDEN
        start = max(start, last)
    if start < end:
        yield text[start:end]


def _rewritten(whole: str, changes: Sequence[tuple[int, int, str]], lengths: Sequence[int]) -> list[str]:
    """A text in pieces of these lengths, with its changes (ordered, not overlapping), each in the piece where it
    begins."""
    if not changes:
        return [whole[end - length : end] for length, end in zip(lengths, accumulate(lengths), strict=True)]
    texts, number, at = [], 0, 0
    for end in accumulate(lengths):
        parts = []
        while number < len(changes) and changes[number][0] < end:
            first, last, text = changes[number]
            parts += [whole[at:first], text]
            at = last
            number += 1
        if at < end:
            parts.append(whole[at:end])
            at = end
        texts.append("".join(parts))
    return texts


def _values(whole: str) -> Iterable[list[_Value]]:
    """The strings of all documents in a stream; strings that continue from one document to the next are together.

    They have the same name. The `index` members on a line distinguish the choices, blocks and calls of an answer. The
    stream is read without a parser, so that any framing works, and a missing end.
    """
    found: defaultdict[tuple[str, ...], list[_Value]] = defaultdict(list)
    start = 0
    for line in whole.split("\n"):
        indexes = _INDEX.findall(line)
        name = ""
        for token in _TOKEN.finditer(line):
            if token["name"] is not None:
                name = token["text"]
            elif token["text"]:
                text = token["text"]
                value = _Value(start + token.start("text"), start + token.end("text"), _unescaped(text))
                found[(name, *indexes)].append(value)
        start += len(line) + 1
    return found.values()


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        decoded = jsonio.decode(b'"' + text.encode("utf-8", "surrogatepass") + b'"')
    except jsonio.InvalidJson:
        return text
    return decoded if isinstance(decoded, str) else text


def _strings(root: list[Any]) -> Iterator[_Piece]:
    left: list[Any] = [root]
    while left:
        container = left.pop()
        for name, value in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(value, str):
                yield _Piece(value, container, name)
            elif isinstance(value, dict | list):
                left.append(value)
