"""Counts tokens if a provider reports none: vocabularies by model name, loaded when they are needed first.

The vocabularies are those of splintr (extra `tokens`); without it everything is an estimate by size. A count with a
model's own vocabulary has the source `tokenizer`, one with another family's vocabulary `estimate`, although it is
better than one by size. A vocabulary takes 20 to 200 ms and about 30 MiB to load and stays loaded; loading, and
counting long texts, is done in threads. On the event loop, `count_on_loop` counts short texts with loaded vocabularies
and estimates the rest.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from streamweir.core.message import AudioPart, CustomCall, FilePart, ImagePart, Message, RefusalPart, TextPart
from streamweir.core.request import Prompt
from streamweir.pipeline.settlement import Count, Counter, UsageSource, estimate
from streamweir.wire import jsonio

MAX_ON_LOOP = 32 * 1024
"""Characters. Prose of that length takes a quarter of a millisecond, the worst possible text seven."""
MAX_COUNTED = 4 * 1024 * 1024
"""The count of a longer text is extrapolated from its beginning."""
_MAX_TEXTS_ON_LOOP = 100
_MAX_CACHED = 1024 * 1024
"""Characters that are counted before the library's cache is cleared, which takes a third of a millisecond."""
_PIECE_LENGTH = 128 * 1024
"""Characters that are counted in one step: it makes a list of the tokens, and blocks other threads meanwhile."""

_PER_MESSAGE, _PER_NAME, _PER_REPLY = 3, 1, 3
"""As documented by OpenAI; other templates are similar."""
_PER_IMAGE, _PER_SMALL_IMAGE, _PER_FILE = 1105, 85, 4096
_AUDIO_BYTES_PER_TOKEN = 1000
_FILE_BYTES_PER_TOKEN = 32


class VocabularyChoice(NamedTuple):
    vocabulary: str
    is_own: bool
    """It is the model's own, and not that of a similar or an unrelated model."""


_OTHER_MODEL = VocabularyChoice("o200k_base", False)
_FAMILIES: tuple[tuple[str, VocabularyChoice], ...] = (
    # The first that is found in the name counts.
    (r"distill-llama", VocabularyChoice("llama3", True)),
    (r"distill-qwen", VocabularyChoice("qwen3", True)),
    (r"gpt-?oss|gpt-?4o|gpt-?4\.[15]|gpt-?5|chatgpt|(^|[/-])o[134](-|$)", VocabularyChoice("o200k_base", True)),
    (r"gpt-?4|gpt-?3\.?5|text-embedding-(3|ada)", VocabularyChoice("cl100k_base", True)),
    (r"code-?llama", VocabularyChoice("codellama", True)),
    (r"llama-?v?3", VocabularyChoice("llama3", True)),
    (r"llama-?v?2|vicuna", VocabularyChoice("llama2", True)),
    (r"deepseek-?(v3|r1|chat|reasoner)", VocabularyChoice("deepseek_v3", True)),
    (r"qwen-?(2|2\.5|3)(?![.\d])|qwq", VocabularyChoice("qwen3", True)),
    (r"glm-?4", VocabularyChoice("glm4", True)),
    (r"kimi-?k2", VocabularyChoice("kimi_k2", True)),
    (r"phi-?4", VocabularyChoice("phi4", True)),
    (r"olmo-?2", VocabularyChoice("olmo2", True)),
    (r"gemma-?2", VocabularyChoice("gemma2", True)),
    (r"gemma-?3", VocabularyChoice("gemma3", True)),
    (r"gemma-?4", VocabularyChoice("gemma4", True)),
    (r"gemini", VocabularyChoice("gemma3", False)),
    (r"mixtral-8x7b|mistral-7b", VocabularyChoice("mistral_v1", True)),
    (r"mixtral-8x22b", VocabularyChoice("mistral_v2", True)),
    (r"mistral-nemo|pixtral", VocabularyChoice("mistral_v3", True)),
    (r"[ds]tral|mixtral", VocabularyChoice("mistral_v3", False)),
)
VOCABULARIES = tuple(dict.fromkeys(choice.vocabulary for _, choice in _FAMILIES))


@lru_cache(maxsize=1024)
def vocabulary_of(model: str) -> VocabularyChoice:
    name = model.lower().replace("_", "-")
    return next((choice for pattern, choice in _FAMILIES if re.search(pattern, name)), _OTHER_MODEL)


class Vocabularies:
    """Each is loaded once, on first use. Thread-safe."""

    def __init__(self, executor: Executor | None = None) -> None:
        """`executor` loads vocabularies that the event loop needs; without one they are not loaded there."""
        self._executor = executor
        self._lock = Lock()
        self._loaded: dict[str, Callable[[str], int] | None] = {}
        self._requested: set[str] = set()

    def tokenizer(self, model: str) -> "Tokenizer":
        return Tokenizer(self, vocabulary_of(model))

    def counter(self, model: str) -> Counter | None:
        """The model's own tokenizer, for the event loop; starts loading it. None: it is not known."""
        choice = vocabulary_of(model)
        if not choice.is_own:
            return None
        if choice.vocabulary not in self._loaded:
            self.find(choice.vocabulary)
        return Tokenizer(self, choice).count_on_loop

    def load(self, name: str) -> Callable[[str], int] | None:
        """None: the library is not installed, or does not have it."""
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = _load(name)
            return self._loaded[name]

    def find(self, name: str) -> Callable[[str], int] | None:
        """Does not wait: None if it is not loaded; then it is loaded in the background."""
        count = self._loaded.get(name)
        if count is None and self._executor is not None and name not in self._requested:
            self._requested.add(name)
            self._executor.submit(self.load, name)
        return count


class Tokenizer:
    """Counts the tokens of texts of one model. Calling it counts a text of any length: not on the event loop."""

    __slots__ = ("_choice", "_vocabularies")

    def __init__(self, vocabularies: Vocabularies, choice: VocabularyChoice) -> None:
        self._vocabularies = vocabularies
        self._choice = choice

    @property
    def _source(self) -> UsageSource:
        return UsageSource.TOKENIZER if self._choice.is_own else UsageSource.ESTIMATE

    def __call__(self, text: str, /) -> Count:
        count = self._vocabularies.load(self._choice.vocabulary)
        if count is None:
            return estimate(text)
        if len(text) > MAX_COUNTED:
            return _count(text[:MAX_COUNTED], count) * len(text) // MAX_COUNTED, UsageSource.ESTIMATE
        return _count(text, count), self._source

    def count_on_loop(self, text: str, /) -> Count:
        """On the event loop."""
        count = self._vocabularies.find(self._choice.vocabulary) if len(text) <= MAX_ON_LOOP else None
        return (count(text), self._source) if count is not None else estimate(text)

    def count_prompt(self, prompt: Prompt) -> Count:
        """Not on the event loop."""
        return _count_prompt(prompt, self)

    def count_prompt_on_loop(self, prompt: Prompt) -> Count:
        """On the event loop."""
        texts = [*prompt.texts, *(text for message in prompt.messages for text in texts_of(message))]
        is_short = len(texts) <= _MAX_TEXTS_ON_LOOP and sum(map(len, texts)) <= MAX_ON_LOOP and not prompt.tools
        return _count_prompt(prompt, self.count_on_loop if is_short else estimate)


class PromptCount:
    """Counts one prompt on the event loop, if it is called: it is kept as long as the answer takes."""

    __slots__ = ("_prompt", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt

    def __call__(self) -> Count:
        return self._tokenizer.count_prompt_on_loop(self._prompt)


def has_media(prompt: Prompt) -> bool:
    """It has content that a provider does not count by its text, or that the provider fetches."""
    if prompt.tools and any(tool.function is None and tool.custom is None for tool in prompt.tools):
        return True
    for message in prompt.messages:
        if isinstance(message.content, tuple) and not all(
            isinstance(part, TextPart | RefusalPart) for part in message.content
        ):
            return True
    return False


def _load(name: str) -> Callable[[str], int] | None:
    try:
        from splintr import Tokenizer as Splintr
    except ImportError:
        return None
    try:
        tokenizer = Splintr.from_pretrained(name)
    except ValueError:  # a version of the library without it
        return None
    encode = tokenizer.encode_ordinary  # a special token that is written in a text counts as text
    has_cache = tokenizer.family == "BPE"
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        try:
            tokens = encode(text)
        except UnicodeEncodeError:  # half of a surrogate pair
            tokens = encode(text.encode("utf-8", "replace").decode())
        counted += len(text)
        if has_cache and counted > _MAX_CACHED:  # it caches rare words, and text without spaces is one word
            counted = 0
            tokenizer.clear_cache()
        return len(tokens)

    count("Warm – up: ÄÖ 123 水\n" * 10)  # the first text with non-ASCII characters takes a tenth of a second
    return count


def _count(text: str, count: Callable[[str], int]) -> int:
    return sum(count(piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Cut before a space if there is one: no token crosses it."""
    start = 0
    while len(text) - start > _PIECE_LENGTH:
        end = text.rfind(" ", start + 1, start + _PIECE_LENGTH)
        end = end if end > 0 else start + _PIECE_LENGTH
        yield text[start:end]
        start = end
    yield text[start:]


def _count_prompt(prompt: Prompt, count: Callable[[str], Count]) -> Count:
    if not prompt.messages:
        return _count_plain(prompt, count)
    counts = [count(text) for message in prompt.messages for text in texts_of(message)]
    tokens = sum(tokens for tokens, _ in counts) + _PER_REPLY
    tokens += sum(_PER_MESSAGE + _PER_NAME * (message.name is not None) for message in prompt.messages)
    estimated = _media_tokens(prompt)
    if prompt.tools:  # how providers write them into the prompt is not documented
        estimated += count(jsonio.encode(prompt.tools).decode())[0]
    is_counted = not estimated and all(source is UsageSource.TOKENIZER for _, source in counts)
    return tokens + estimated, UsageSource.TOKENIZER if is_counted else UsageSource.ESTIMATE


def _count_plain(prompt: Prompt, count: Callable[[str], Count]) -> Count:
    """A prompt without a template."""
    counts = [count(text) for text in prompt.texts]
    is_counted = all(source is UsageSource.TOKENIZER for _, source in counts)
    source = UsageSource.TOKENIZER if is_counted else UsageSource.ESTIMATE
    return prompt.tokens + sum(tokens for tokens, _ in counts), source


def texts_of(message: Message) -> Iterator[str]:
    yield message.role
    if message.name is not None:
        yield message.name
    for part in message.parts:
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, RefusalPart):
            yield part.refusal
    calls = [call.function or call.custom for call in message.tool_calls]
    for call in (*calls, message.function_call):
        if call is not None:
            yield call.name
            yield call.input if isinstance(call, CustomCall) else call.arguments


def _media_tokens(prompt: Prompt) -> int:
    """A rule of thumb for content without text: large images, recordings and pages."""
    tokens = 0
    for message in prompt.messages:
        for part in message.parts:
            if isinstance(part, ImagePart):
                tokens += _PER_SMALL_IMAGE if part.image_url.detail == "low" else _PER_IMAGE
            elif isinstance(part, AudioPart):
                tokens += len(part.input_audio.data) // _AUDIO_BYTES_PER_TOKEN + 1
            elif isinstance(part, FilePart):
                data = part.file.file_data
                tokens += len(data) // _FILE_BYTES_PER_TOKEN + 1 if data is not None else _PER_FILE
            elif not isinstance(part, TextPart | RefusalPart):
                tokens += _PER_FILE
    return tokens
