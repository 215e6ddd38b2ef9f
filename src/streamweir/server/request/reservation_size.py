"""How much must be reserved for a request with a limited budget, computed when accounting needs it.

The size of the body in bytes gives a first upper bound of the prompt. A count by the tokenizers of all models that
may answer is a better bound, but needs a thread: it is made only if the first bound does not fit.
"""

import asyncio
from concurrent.futures import Executor

from streamweir.core.request import ChatRequest
from streamweir.pipeline.output_limit import thinking_budget
from streamweir.pipeline.prompt_bound import PromptBound, bound_of, own_text_of, predicted_tokens, text_of
from streamweir.pipeline.settlement import BYTES_PER_TOKEN, UsageSource
from streamweir.policy.limits.reserve import Need
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route
from streamweir.server.accounting.token_count import Vocabularies, vocabulary_of
from streamweir.server.request.request_size import choices_of
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.runtime.model_limits import AnswerLimits

_MIN_COUNTED_BYTES = 4096
"""For a shorter prompt, the difference is a cent at most."""
_USUAL_MEDIA_DIVISOR = 8
"""Images and recordings usually take this fraction of their maximum."""


class ReservationSize:
    """The size for one request. Nothing is measured before it is needed."""

    __slots__ = (
        "_answers",
        "_body_bytes",
        "_bound",
        "_chat",
        "_parser",
        "_route",
        "_runtime",
        "_vocabularies",
        "limits",
    )

    def __init__(
        self,
        runtime: RuntimeConfig,
        vocabularies: Vocabularies,
        parser: Executor,
        route: Route,
        chat: ChatRequest,
        body_bytes: int,
    ) -> None:
        """`body_bytes`: the size of the caller's body, as received."""
        self._runtime = runtime
        self._vocabularies = vocabularies
        self._parser = parser
        self._route = route
        self.limits = runtime.model_limits.of(route)
        self._chat = chat
        self._body_bytes = body_bytes
        self._bound: PromptBound | None = None
        self._answers: tuple[int, ...] = ()

    def need(self, hold_tokens: int) -> Need:
        """`hold_tokens`: for an answer without a limit, if the remaining budget is not known."""
        chat, limits, store = self._chat, self.limits, self._runtime.config.store
        bound = bound_of(chat, self._body_bytes, limits.image_tokens, links_are_images=limits.links_are_images)
        self._bound = bound
        choices, limit, budget = choices_of(chat), chat.max_output_tokens, thinking_budget(chat)
        if limit is None:
            self._answers = tuple([_max_answer(each, bound, hold_tokens) for each in limits.answers])
        elif limits.longest is not None and limits.longest < limit:
            limit = limits.longest
        reasons = chat.reasoning is not None or budget > 0 or "thinking" in chat.body
        return Need(
            prompt=bound.by_bytes(limits.largest_window, store.prompt_bytes_per_token),
            limit=None if limit is None else limit * choices,
            default=hold_tokens + budget,
            max_answer=max(self._answers) if limit is None else limit,
            choices=choices,
            extra_output=0 if chat.prediction is None else predicted_tokens(chat),
            service_tier=chat.service_tier,
            reasons=reasons,
            never_hides=limits.never_hides and not reasons,
        )

    def max_answer(self, target: TargetId) -> int | None:
        """The longest answer that is requested from a target, per choice, if the caller set no limit."""
        routes = (self._route, *self._route.reachable)
        limits = zip(routes, self._answers, strict=False)  # none: the size was not needed, or the caller set a limit
        return next((tokens for route, tokens in limits if route.has_target(target)), None)

    async def count(self) -> int | None:
        """The maximum prompt tokens, by the tokenizers of all models that may answer. None: one is not available."""
        bound, models = self._bound, self._models()
        if (
            bound is None
            or bound.text_bytes < _MIN_COUNTED_BYTES
            or not all(vocabulary_of(model).is_own for model in models)
        ):
            return None
        loop = asyncio.get_running_loop()
        tokens = await loop.run_in_executor(self._parser, self._count, models)
        return None if tokens is None else bound.by_count(tokens, self.limits.largest_window)

    def _models(self) -> list[str]:
        routes = (self._route, *self._route.reachable)
        return list(dict.fromkeys(entry.target.model for route in routes for entry in route.targets))

    def _count(self, models: list[str]) -> int | None:
        """In a thread."""
        texts = [text for text in (text_of(self._chat), own_text_of(self._chat)) if text]
        counts = [self._vocabularies.tokenizer(model)(text) for model in models for text in texts]
        is_counted = all(source is UsageSource.TOKENIZER for _, source in counts)
        return max(tokens for tokens, _ in counts) if is_counted else None


def _max_answer(limits: AnswerLimits, bound: PromptBound, hold_tokens: int) -> int:
    """At most the tokens that every context window has left for an answer after this prompt, by the rule of thumb. The
    size of an image in bytes does not matter for that."""
    if limits.smallest_window is None:
        return limits.answer
    taken = bound.text_bytes * 4 // (3 * BYTES_PER_TOKEN) + bound.other_tokens // _USUAL_MEDIA_DIVISOR
    return max(1, min(limits.answer, max(hold_tokens, limits.smallest_window - taken)))
