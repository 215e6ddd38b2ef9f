"""What a dashboard is declared with: panels in rows, and the queries that they have in common.

Every query is limited to the job and the instances that are chosen, and those about requests to the models and targets.
"""

from msgspec import Struct

OF_JOB = 'job=~"$job",instance=~"$instance"'
OF_MODEL = f'{OF_JOB},model=~"$model"'
OF_TARGET = f'{OF_JOB},target=~"$target"'
OF_REQUEST = f'{OF_JOB},model=~"$model",target=~"$target"'


class Panel(Struct, frozen=True):
    title: str
    queries: dict[str, str]
    """By legend: PromQL."""
    unit: str = "short"
    about: str = ""
    kind: str = "lines"
    """`lines`, `stack`, `number`, `bars` (of now, the longest first) or `states`."""
    limit: float | None = None
    """From here on it is red."""
    is_low_bad: bool = False
    most: float | None = None
    """The top of the axis."""


class Row(Struct, frozen=True):
    title: str
    panels: tuple[Panel, ...]


class Dashboard(Struct, frozen=True):
    name: str
    title: str
    about: str
    rows: tuple[Row, ...]


def rate(metric: str, selector: str, *by: str, window: str = "$__rate_interval") -> str:
    return f"sum by ({', '.join(by)}) (rate(streamweir_{metric}{{{selector}}}[{window}]))"


def more(metric: str, selector: str, *by: str) -> str:
    """How much was added in the time that is shown."""
    return f"sum by ({', '.join(by)}) (increase(streamweir_{metric}{{{selector}}}[$__range]))"


def quantile(share: float, metric: str, selector: str, *by: str) -> str:
    labels = ", ".join(("le", *by))
    rates = f"sum by ({labels}) (rate(streamweir_{metric}_bucket{{{selector}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {rates})"


def percentiles(metric: str, selector: str, *shares: float) -> dict[str, str]:
    return {f"p{share * 100:g}": quantile(share, metric, selector) for share in shares}


def gauge_of(metric: str, *by: str, how: str = "sum", selector: str = OF_JOB) -> str:
    return f"{how} by ({', '.join(by)}) (streamweir_{metric}{{{selector}}})"


def top(number: int, expression: str) -> str:
    return f"topk({number}, {expression})"


def share(part: str, whole: str) -> str:
    return f"{part} / ({whole} > 0)"


def margin(of: str, selector: str, *by: str) -> str:
    return f"{more(f'{of}price_usd_total', selector, *by)} - {more(f'{of}cost_usd_total', selector, *by)}"


def burn(objective: str) -> dict[str, str]:
    ratio = f'streamweir:{objective}:ratio_rate1h{{job=~"$job"}}'
    return {"{{job}}": f"{ratio} / scalar(streamweir:{objective}:budget)"}
