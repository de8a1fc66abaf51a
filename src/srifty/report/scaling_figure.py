"""Throughput and cost against the number of VMs, with where they lie eight times of ten."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.files.plan_document import BandPart, PlanDocument, PlanPart, ScalingPart
from srifty.report.axis import Axis, dollar_axis, number_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import NARROW, both
from srifty.report.quantities import UNKNOWN, count, dollars, odds, rate
from srifty.report.table import Figure, Key, Row, Table, columns

TONES = ("first", "second", "third", "fourth")
_MARGIN = 1.05


def scaling_figure(document: PlanDocument) -> Figure | None:
    """Returns the drawing of a plan; None where its file knows no curves."""
    scaling = document.scaling
    chosen = document.plan or document.nearest
    if scaling is None or chosen is None or not scaling.curves:
        return None
    wide, narrow = both(lambda width: _draw(scaling, chosen, width))
    keys = [
        Key("line", tone, f"{curve.instance_type} alone")
        for curve, tone in zip(scaling.curves, TONES, strict=False)
    ]
    keys.append(Key("band", "first", "10 to 90 % of the time"))
    keys.append(Key("hollow", "ink", "chosen" if document.plan else "nearest plan"))
    if scaling.measured:
        keys.append(Key("ring", "ink", "measured"))
    caption = (
        "One iteration's throughput and the whole job's cost, were one instance type used alone; "
        "local batches of any size."
    )
    return Figure("scaling", caption, wide, narrow, tuple(keys), _table(scaling))


def _draw(scaling: ScalingPart, chosen: PlanPart, width: float) -> Drawing:
    is_wide = width > NARROW
    panel = 250.0 if is_wide else 230.0
    drawing = Drawing(width, 2 * panel, "Throughput and cost against the number of VMs")
    points = [point for curve in scaling.curves for point in curve.points]
    counts = [*(p.vms for p in points), *(m.vms for m in scaling.measured), chosen.vms]
    x_low, x_high = min(counts) - 0.5, max(counts) + 0.5
    rates = [
        *_ends([p.samples_per_s for p in points]),
        *(m.samples_per_s for m in scaling.measured),
    ]
    costs = _ends([p.cost_usd for p in points])
    chosen_rate = _throughput(chosen)
    if chosen_rate is not None:
        rates.append(chosen_rate)
    if chosen.cost_usd.mean is not None:
        costs.append(chosen.cost_usd.mean)
    for index, name in enumerate(("throughput, samples/s", "cost in total, US dollars")):
        top = index * panel
        start, end = top + panel - 46, top + 30
        rough = number_axis(x_low, x_high, 0, 1, most=13 if is_wide else 5, whole=True)
        ticks = tuple(tick for tick in rough.ticks if x_low < tick.value < x_high)
        x = Axis(x_low, x_high, 62.0, width - 10, ticks)
        if index == 0:
            y = number_axis(0.0, _MARGIN * max(rates, default=1.0), start, end, most=5)
        else:
            y = dollar_axis(_MARGIN * max(costs, default=1.0), start, end, most=5)
        drawing.frame(x, y, x_name="VMs", y_name=name)
        for curve, tone in zip(scaling.curves, TONES, strict=False):
            bands = [
                (p.vms, p.samples_per_s if index == 0 else p.cost_usd, p.config)
                for p in curve.points
            ]
            _curve(drawing, x, y, bands, tone)
        if index == 0:
            for one in scaling.measured:
                words = (
                    f"{one.instance_type}, {one.vms} VMs: {rate(one.samples_per_s).text} measured"
                )
                drawing.dot((x.at(one.vms), y.at(one.samples_per_s)), 5, "ring-ink", words)
        value = chosen_rate if index == 0 else chosen.cost_usd.mean
        if value is not None:
            drawing.diamond((x.at(chosen.vms), y.at(value)), 8.5, "hollow-ink", chosen.config)
    return drawing


def _curve(
    drawing: Drawing, x: Axis, y: Axis, bands: Sequence[tuple[int, BandPart, str]], tone: str
) -> None:
    whole = [
        (x.at(vms), y.at(band.p10), y.at(band.p90))
        for vms, band, _ in bands
        if band.p10 is not None and band.p90 is not None
    ]
    upper = [(at, high) for at, _, high in whole]
    drawing.area([*upper, *((at, low) for at, low, _ in reversed(whole))], f"band-{tone}")
    if len(whole) == 1:  # an area needs two
        at, low, high = whole[0]
        drawing.line((at, low), (at, high), f"line-{tone}")
    means = [(x.at(vms), y.at(band.mean)) for vms, band, _ in bands if band.mean is not None]
    drawing.path(means, f"line-{tone}")
    for vms, band, config in bands:
        if band.mean is not None:
            drawing.dot((x.at(vms), y.at(band.mean)), 3.5, f"fill-{tone}", config)


def _throughput(plan: PlanPart) -> float | None:
    mean_s = plan.iteration_s.mean
    return plan.samples / mean_s if mean_s else None


def _ends(bands: Sequence[BandPart]) -> list[float]:
    return [end for band in bands for end in (band.mean, band.p90) if end is not None]


def _table(scaling: ScalingPart) -> Table:
    rows: list[Row] = []
    for c, curve in enumerate(scaling.curves):
        for p, point in enumerate(curve.points):
            source = f"scaling.curves.{c}.points.{p}"
            speed, cost = point.samples_per_s, point.cost_usd
            rows.append(
                Row(
                    (
                        curve.instance_type,
                        count(point.vms, f"{source}.vms"),
                        point.config,
                        rate(speed.mean, f"{source}.samples_per_s.mean", ""),
                        rate(speed.p10, f"{source}.samples_per_s.p10", ""),
                        rate(speed.p90, f"{source}.samples_per_s.p90", ""),
                        dollars(cost.mean, f"{source}.cost_usd.mean"),
                        dollars(cost.p10, f"{source}.cost_usd.p10"),
                        dollars(cost.p90, f"{source}.cost_usd.p90"),
                        odds(point.success_probability, f"{source}.success_probability"),
                    )
                )
            )
    for m, one in enumerate(scaling.measured):
        speed = rate(one.samples_per_s, f"scaling.measured.{m}.samples_per_s", "")
        vms = count(one.vms, f"scaling.measured.{m}.vms")
        unknown = (UNKNOWN,) * 6
        rows.append(Row((one.instance_type, vms, "measured", speed, *unknown)))
    head = columns(
        *("type", "#VMs", "configuration", "#samples/s", "#samples/s P10", "#samples/s P90"),
        *("#cost", "#cost P10", "#cost P90", "#odds"),
    )
    return Table("Throughput and cost against the number of VMs", head, tuple(rows))
