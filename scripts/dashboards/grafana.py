"""Writes a dashboard as the JSON that Grafana reads, by the library of Grafana's makers for one version of it."""

import json
from collections.abc import Iterator
from itertools import count

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from scripts.dashboards.panel import Dashboard, Panel

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24
_ALL = VariableOption(text="All", value="$__all", selected=True)

Builder = timeseries.Panel | stat.Panel | bargauge.Panel | statetimeline.Panel


def to_json(declared: Dashboard) -> str:
    made = (
        dashboard.Dashboard(f"Streamweir: {declared.title}")
        .uid(f"streamweir-{declared.name}")
        .description(declared.about)
        .tags(["streamweir"])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Streamweir")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["streamweir"])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .variables(list(_variables()))
    )
    ids, top_y = count(1), 0
    for row in declared.rows:
        made = made.with_row(dashboard.Row(row.title).id(next(ids)).grid_pos(GridPos(h=1, w=_WIDTH, x=0, y=top_y)))
        top_y += 1
        x = height = 0
        for panel in row.panels:
            width, height = _size(panel, len(row.panels))
            if x + width > _WIDTH:
                x, top_y = 0, top_y + height
            made = made.with_panel(_panel(panel).id(next(ids)).grid_pos(GridPos(h=height, w=width, x=x, y=top_y)))
            x += width
        top_y += height
    return json.dumps(made.build(), cls=JSONEncoder, sort_keys=True, indent=1) + "\n"


def _size(panel: Panel, beside: int) -> tuple[int, int]:
    if panel.kind == "number":
        return _WIDTH // beside, 4
    return (12 if beside % 3 else 8), 8


def _variables() -> Iterator[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    yield (
        dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus").hide(VariableHide.DONT_HIDE)
    )
    for name, query in (
        ("job", "label_values(streamweir_build_info, job)"),
        ("instance", 'label_values(streamweir_build_info{job=~"$job"}, instance)'),
        ("model", 'label_values(streamweir_requests_total{job=~"$job"}, model)'),
        ("target", 'label_values(streamweir_requests_total{job=~"$job"}, target)'),
    ):
        yield (
            dashboard.QueryVariable(name)
            .label(name.capitalize())
            .datasource(_SOURCE)
            .query({"query": query, "refId": name, "qryType": 5})
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(_ALL)
        )


def _panel(panel: Panel) -> Builder:
    made = _shape(panel).title(panel.title).datasource(_SOURCE).unit(panel.unit).min(0)
    if panel.about:
        made = made.description(panel.about)
    if panel.most is not None:
        made = made.max(panel.most)
    for number, (legend, expression) in enumerate(panel.queries.items()):
        query = prometheus.Dataquery().ref_id(chr(ord("A") + number)).expr(expression.strip()).legend_format(legend)
        made = made.with_target(query.instant() if panel.kind in ("number", "bars") else query.range())
    return made.thresholds(_thresholds(panel))


def _shape(panel: Panel) -> Builder:
    match panel.kind:
        case "number":
            return stat.Panel().color_mode(shapes.BigValueColorMode.VALUE).graph_mode(shapes.BigValueGraphMode.NONE)
        case "bars":
            return (
                bargauge.Panel()
                .display_mode(shapes.BarGaugeDisplayMode.BASIC)
                .orientation(shapes.VizOrientation.HORIZONTAL)
                .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
            )
        case "states":
            return (
                statetimeline.Panel().show_value(shapes.VisibilityMode.NEVER).mappings([ValueMap(options={"0": _BAD})])
            )
    legend = (
        common.VizLegendOptions()
        .display_mode(shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    lines = timeseries.Panel().legend(legend).line_width(1).fill_opacity(10).show_points(shapes.VisibilityMode.NEVER)
    if panel.kind == "stack":
        lines = lines.fill_opacity(60).stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL))
    if panel.limit is not None:
        lines = lines.thresholds_style(common.GraphThresholdsStyleConfig().mode(shapes.GraphThresholdsStyleMode.LINE))
    return lines


_BAD = ValueMappingResult(text="no", color="red", index=0)


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    first, then = ("red", "green") if panel.is_low_bad else ("green", "red")
    steps = [Threshold(color=first, value=None)]
    if panel.limit is not None:
        steps.append(Threshold(color=then, value=panel.limit))
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
