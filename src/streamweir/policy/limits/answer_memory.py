"""What the last answers of a model were like: how long, and whether everything that was billed was also shown.

A stream can be cut where its money ends, but only if what it costs can be seen. A model that thinks without showing it
bills tokens that nobody sees before the end. So a model counts as shown only after many answers, and long ones, that
were; one that was not takes all of that away. A caller can choose what its answers show, so this is never enough alone:
see `Need.never_hides`. Lengths are remembered for each key, because keys are used for different work. All of it is
bounded, and forgotten with the process: what is not known is reserved whole. Pure.
"""

from collections import OrderedDict, deque

from msgspec import Struct, field

_LENGTHS = 32
"""Of a key with a model, so many of the last answers are remembered: most of an agent's are short, and a long one that
comes now and then must not be ended because of that."""
_DENSITIES = 8
"""Of a model."""
_MIN_EVIDENCE = 32
"""Tokens: a shorter answer shows nothing about the model."""
_SHOWN_ANSWERS, _SHOWN_TOKENS = 32, 32_768
"""So many in a row, with so many tokens together, before the next may be cut by what is seen of it."""
_MIN_BYTES_PER_TOKEN = 2
"""An answer with less text for each token that was billed was not shown completely."""
UNCOUNTED_TOKENS = 16
"""So many of an answer need not be seen: they may be of its form, and not of its text."""
_SAFE_PART = 0.75
"""Of the fewest bytes per token that were seen: so many are expected of the next answer."""
_GROWTH = 2
_MAX_MODELS, _MAX_KEYS = 1024, 8192


class _Model(Struct):
    answers: int = 0
    """Shown completely, since the last one that was not."""
    tokens: int = 0
    densities: deque[float] = field(default_factory=lambda: deque(maxlen=_DENSITIES))


class AnswerMemory:
    """`reasons`: the request asked for reasoning. A model may show its answers, and hide its reasoning."""

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[str, bool], _Model] = OrderedDict()
        self._lengths: OrderedDict[tuple[str, str, bool], deque[int]] = OrderedDict()

    def note(self, key_id: str, model: str, tokens: int, shown_bytes: int, *, reasons: bool) -> None:
        """An answer is complete. `tokens`: as the provider has reported them. `shown_bytes`: not used if it has at most
        `UNCOUNTED_TOKENS`."""
        if tokens > UNCOUNTED_TOKENS:
            self._note_shown((model, reasons), tokens, shown_bytes)
        key = key_id, model, reasons
        lengths = self._lengths.get(key)
        if lengths is None:
            lengths = self._lengths[key] = deque(maxlen=_LENGTHS)
            _bound(self._lengths, _MAX_KEYS)
        else:
            self._lengths.move_to_end(key)
        lengths.append(tokens)

    def _note_shown(self, key: tuple[str, bool], tokens: int, shown_bytes: int) -> None:
        known = self._models.get(key)
        if known is None:
            known = self._models[key] = _Model()
            _bound(self._models, _MAX_MODELS)
        if tokens > shown_bytes // _MIN_BYTES_PER_TOKEN + UNCOUNTED_TOKENS:
            known.answers = known.tokens = 0
        elif tokens >= _MIN_EVIDENCE:
            known.answers, known.tokens = known.answers + 1, known.tokens + tokens
            known.densities.append(shown_bytes / tokens)

    def is_shown(self, model: str, *, reasons: bool) -> bool:
        """Whether everything that the last answers cost was seen, of so many that the next is expected to be alike."""
        known = self._models.get((model, reasons))
        if known is None:
            return False
        self._models.move_to_end((model, reasons))
        return known.answers >= _SHOWN_ANSWERS and known.tokens >= _SHOWN_TOKENS

    def expected_tokens(self, key_id: str, model: str, *, reasons: bool) -> int | None:
        """Twice the longest of the last answers. None: there were none."""
        lengths = self._lengths.get((key_id, model, reasons))
        return None if lengths is None else _GROWTH * max(lengths)

    def bytes_per_token(self, model: str, *, reasons: bool) -> float:
        """So few that the tokens of an answer are hardly ever more than its bytes divided by it."""
        known = self._models.get((model, reasons))
        return 1.0 if known is None or not known.densities else max(1.0, _SAFE_PART * min(known.densities))


def _bound(
    known: OrderedDict[tuple[str, bool], _Model] | OrderedDict[tuple[str, str, bool], deque[int]], size: int
) -> None:
    if len(known) > size:
        known.popitem(last=False)
