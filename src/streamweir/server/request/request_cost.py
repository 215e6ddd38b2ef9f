"""What a request would cost at each of its targets, for the strategy `cheapest`: by its size, before it is sent.

An estimate that orders targets: nothing is reserved or billed by it. The prompt is estimated by its length. Callers set
limits that answers rarely reach, so an answer counts with the setting `hold_tokens` at most.
"""

from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import cost_of
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route
from streamweir.server.request.request_size import estimate_prompt
from streamweir.server.request.runtime.config import RuntimeConfig


class RequestCost:
    __slots__ = ("_at_ms", "_chat", "_route", "_runtime", "_usage")

    def __init__(self, runtime: RuntimeConfig, route: Route, chat: ChatRequest, at_ms: int) -> None:
        """`route`: whole, because its prices are kept."""
        self._runtime = runtime
        self._route = route
        self._chat = chat
        self._at_ms = at_ms
        self._usage: Usage | None = None

    def of(self, target: TargetId) -> int | None:
        """In nano-dollars. None: the target has no price."""
        quote, _ = self._runtime.quotes.of(self._route, self._at_ms)
        rates = quote.rates.get(str(target))
        if rates is None:
            return None
        if self._usage is None:
            self._usage = self._estimate()
        return cost_of(self._usage, rates, self._chat.service_tier)

    def _estimate(self) -> Usage:
        chat, answer = self._chat, self._runtime.config.store.hold_tokens
        if chat.max_output_tokens is not None:
            answer = min(answer, chat.max_output_tokens)
        if chat.api == "embeddings":
            answer = 0
        return Usage(input_uncached=estimate_prompt(chat), output=answer * chat.n)
