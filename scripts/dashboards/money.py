"""What is sold and what it costs: with the metrics that are for the operator alone."""

from scripts.dashboards.panel import (
    OF_JOB,
    OF_MODEL,
    OF_REQUEST,
    Dashboard,
    Panel,
    Row,
    gauge_of,
    margin,
    more,
    rate,
    share,
    top,
)

_INPUT = f'{OF_MODEL},kind=~"input_uncached|cache_read|cache_write|audio_input|image_input"'
_CACHED = f'{OF_MODEL},kind="cache_read"'
_ESTIMATED = f'{OF_MODEL},source!="provider"'
_USD = "currencyUSD"
_HOUR = "3600 * "

MONEY = Dashboard(
    "money",
    "Money",
    "What is sold and what it costs, by model, workspace and key. Only with the metrics of the operator.",
    (
        Row(
            "In the time that is shown",
            (
                Panel(
                    "Price", {"": more("price_usd_total", OF_REQUEST)}, _USD, "What requests are sold for.", "number"
                ),
                Panel("Cost", {"": more("cost_usd_total", OF_REQUEST)}, _USD, "What providers ask for.", "number"),
                Panel(
                    "Margin",
                    {"": margin("", OF_REQUEST)},
                    _USD,
                    "As far as cost and price are known.",
                    "number",
                    limit=0.0,
                    is_low_bad=True,
                ),
                Panel(
                    "Read from caches",
                    {"": share(more("tokens_total", _CACHED), more("tokens_total", _INPUT))},
                    "percentunit",
                    "Of all input tokens.",
                    "number",
                ),
                Panel(
                    "Requests without a price",
                    {"": more("unpriced_requests_total", OF_REQUEST)},
                    kind="number",
                    limit=1.0,
                ),
                Panel(
                    "Requests of unknown cost",
                    {"": more("uncosted_requests_total", OF_REQUEST)},
                    kind="number",
                    limit=1.0,
                ),
            ),
        ),
        Row(
            "By model",
            (
                Panel(
                    "Price per hour by model",
                    {"{{model}}": _HOUR + rate("price_usd_total", OF_REQUEST, "model")},
                    _USD,
                    kind="stack",
                ),
                Panel(
                    "Cost per hour by target",
                    {"{{target}}": _HOUR + rate("cost_usd_total", OF_REQUEST, "target")},
                    _USD,
                    kind="stack",
                ),
                Panel("Margin by model", {"{{model}}": top(20, margin("", OF_REQUEST, "model"))}, _USD, kind="bars"),
            ),
        ),
        Row(
            "By workspace and key",
            (
                Panel(
                    "Price by workspace",
                    {"{{workspace}}": top(20, more("key_price_usd_total", OF_JOB, "workspace"))},
                    _USD,
                    kind="bars",
                ),
                Panel(
                    "Cost by workspace",
                    {"{{workspace}}": top(20, more("key_cost_usd_total", OF_JOB, "workspace"))},
                    _USD,
                    kind="bars",
                ),
                Panel(
                    "Margin by workspace",
                    {"{{workspace}}": top(20, margin("key_", OF_JOB, "workspace"))},
                    _USD,
                    kind="bars",
                ),
                Panel(
                    "Price by key",
                    {"{{workspace}} / {{key}}": top(20, more("key_price_usd_total", OF_JOB, "workspace", "key"))},
                    _USD,
                    kind="bars",
                ),
                Panel(
                    "Cost by key",
                    {"{{workspace}} / {{key}}": top(20, more("key_cost_usd_total", OF_JOB, "workspace", "key"))},
                    _USD,
                    kind="bars",
                ),
                Panel(
                    "Requests by key",
                    {"{{workspace}} / {{key}}": top(20, more("key_requests_total", OF_JOB, "workspace", "key"))},
                    kind="bars",
                ),
            ),
        ),
        Row(
            "Budgets",
            (
                Panel(
                    "Budgets used, by key",
                    {
                        "{{workspace}} / {{key}} ({{period}})": top(
                            20, gauge_of("key_budget_used_ratio", "workspace", "key", "period", how="max")
                        )
                    },
                    "percentunit",
                    "Of keys that were used in the present period.",
                    "bars",
                    limit=0.9,
                    most=1.0,
                ),
                Panel(
                    "Credits used, by workspace",
                    {"{{workspace}}": top(20, gauge_of("workspace_credit_used_ratio", "workspace", how="max"))},
                    "percentunit",
                    "Of prepaid workspaces.",
                    "bars",
                    limit=0.9,
                    most=1.0,
                ),
            ),
        ),
        Row(
            "Tokens",
            (
                Panel(
                    "Read from caches, by model",
                    {"{{model}}": share(rate("tokens_total", _CACHED, "model"), rate("tokens_total", _INPUT, "model"))},
                    "percentunit",
                    "Of all input tokens.",
                    most=1.0,
                ),
                Panel("Tokens by kind", {"{{kind}}": more("tokens_total", OF_MODEL, "kind")}, kind="bars"),
                Panel(
                    "Tokens that are estimates, by model",
                    {
                        "{{model}}": share(
                            rate("tokens_total", _ESTIMATED, "model"), rate("tokens_total", OF_MODEL, "model")
                        )
                    },
                    "percentunit",
                    "The provider reported none, so they were counted here.",
                    most=1.0,
                ),
            ),
        ),
    ),
)
