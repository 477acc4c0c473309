"""Geometry of the HTML report's drawings: bars in percent of the width and pixels of height.

Nothing here knows HTML. Percent of the width lets a drawing fill any screen without distortion, and be
zoomed by changing one width.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analyzer.analysis.latency import LatencyRow, RateRow
from analyzer.report.text import duration, number, plural, seconds
from analyzer.report.timeline import BACK_OFF, HOLD, WAIT, Segment, Timeline

LANE_ROW = 16
LANE_LABEL = 18
LANE_GAP = 8
#: height and offset in a lane's row: kinds differ in shape, not only in colour
SHAPE = {HOLD: (12, 2), WAIT: (8, 4), BACK_OFF: (4, 6)}
CHART_HEIGHT = 120
MAX_STATUSES = 7
MAX_CHARTS = 8
_REFERENCES = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: `x` and `width` in percent, `y` and `height` in pixels from the top."""

    x: float
    width: float
    y: float
    height: float
    css: str
    tip: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: percent of the width (time) or pixels from the top (amount)."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class LaneDrawing:
    """A lane of a timeline: its place from the top and its bars."""

    client: str
    y: float
    height: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """A timeline that covers [start_ns, end_ns] relative to the begin of the input."""

    timeline: Timeline
    start_ns: int
    end_ns: int
    height: float
    lanes: tuple[LaneDrawing, ...]
    ticks: tuple[Tick, ...]
    kinds: tuple[tuple[str, str], ...]  # kind, sum of its time


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over time; `key` names its colours."""

    title: str
    note: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]  # time
    levels: tuple[Tick, ...]  # amount
    key: tuple[tuple[str, str], ...]  # css, label


def references(refs: Sequence[str], limit: int = _REFERENCES, file: str | None = None) -> str:
    """`a.pcap frames 202, 752` for references into one file, else the references themselves. The name
    is left out if it is `file`: the only one that the report cites."""
    shown = refs[:limit]
    more = f" and {number(len(refs) - limit)} more" if len(refs) > limit else ""
    split = [r.rpartition("#") for r in shown]
    files = {name for name, mark, _ in split if mark}
    if shown and len(files) == 1 and all(mark for _, mark, _ in split):
        name = files.pop()
        noun = "frame" if len(refs) == 1 else "frames"
        places = f"{noun} {', '.join(place for _, _, place in split)}{more}"
        return places if name == file else f"{name} {places}"
    return ", ".join(shown) + more


def draw_timeline(timeline: Timeline, origin_ns: int, file: str | None = None) -> TimelineDrawing:
    """Place the segments of one file; the time axis covers just what is in it."""
    segments = [s for lane in timeline.lanes for s in lane.segments]
    first = min((s.start_ns for s in segments), default=origin_ns)
    last = max((s.end_ns for s in segments), default=origin_ns)
    margin = max((last - first) // 100, 1000)
    first, last = first - margin, last + margin
    lanes = []
    y = 0.0
    for lane in timeline.lanes:
        height = LANE_LABEL + lane.rows * LANE_ROW
        top = y + LANE_LABEL
        bars = tuple(
            _segment_bar(s, lane.client, top, (first, last, origin_ns), file) for s in lane.segments
        )
        lanes.append(LaneDrawing(lane.client, y, height, bars))
        y += height + LANE_GAP
    sums: Counter[str] = Counter()
    for segment in segments:
        sums[segment.kind] += segment.end_ns - segment.start_ns
    kinds = tuple((kind, duration(sums[kind])) for kind in (HOLD, WAIT, BACK_OFF) if kind in sums)
    ticks = time_ticks(first - origin_ns, last - origin_ns)
    return TimelineDrawing(timeline, first - origin_ns, last - origin_ns, y, tuple(lanes), ticks, kinds)


def _segment_bar(
    segment: Segment, client: str, y: float, window: tuple[int, int, int], file: str | None
) -> Bar:
    """`window` is first and last moment of the drawing, and the begin of the input."""
    first, last, origin = window
    height, offset = SHAPE[segment.kind]
    length = duration(segment.end_ns - segment.start_ns)
    shown = f"at least {length}" if segment.open_end else length
    tip = (
        f"{segment.kind} of {shown} by {client}\n"
        f"{seconds(segment.start_ns - origin)} to {seconds(segment.end_ns - origin)}\n"
        f"{segment.detail}\n{references(segment.refs, file=file)}"
    )
    return Bar(
        100 * (segment.start_ns - first) / (last - first),
        100 * (segment.end_ns - segment.start_ns) / (last - first),
        y + segment.row * LANE_ROW + offset,
        height,
        segment.kind + (" open" if segment.open_end else ""),
        tip,
    )


def time_ticks(start_ns: int, end_ns: int, wanted: int = 6) -> tuple[Tick, ...]:
    """Round moments (1, 2 or 5 times a power of ten) in a window of relative times."""
    span = max(1, end_ns - start_ns)
    step = 10 ** math.floor(math.log10(span / wanted)) if span > wanted else 1
    step = int(next(step * m for m in (1, 2, 5, 10) if span / (step * m) <= wanted)) or 1
    digits = max(0, 9 - int(math.log10(step)))
    first = -(-start_ns // step) * step
    return tuple(
        Tick(100 * (at - start_ns) / span, f"{at / 1e9:.{digits}f} s")
        for at in range(first, end_ns + 1, step)
    )


def status_charts(rates: Sequence[RateRow], start_ns: int, end_ns: int) -> list[Chart]:
    """Two charts: all operations, and those whose status isn't ok (stacked by status)."""
    if not rates:
        return []
    total: Counter[str] = Counter()
    for row in rates:
        total[row.status] += row.count
    bad = [s for s, _ in sorted(total.items(), key=lambda item: (-item[1], item[0])) if s.lower() != "ok"]
    named = bad[:MAX_STATUSES]
    rest = sum(total[s] for s in bad[MAX_STATUSES:])
    css = {s: f"s{i + 1}" for i, s in enumerate(named)}
    window = (start_ns, _end(rates, end_ns))
    charts = [_stacked("All operations", rates, window, {}, "all")]
    if bad:
        chart = _stacked(
            "Operations that failed", [r for r in rates if r.status in bad], window, css, "rest"
        )
        key = [(css[s], f"{s} {number(total[s])}") for s in named]
        key += [("rest", f"others {number(rest)}")] if rest else []
        charts.append(Chart(chart.title, chart.note, chart.bars, chart.ticks, chart.levels, tuple(key)))
    return charts


def _stacked(
    title: str, rows: Iterable[RateRow], window: tuple[int, int], css: dict[str, str], default: str
) -> Chart:
    columns: dict[int, Counter[str]] = defaultdict(Counter)
    width_ns = 1
    for row in rows:
        columns[row.start_ns][row.status] += row.count
        width_ns = row.width_ns
    top = nice(max(sum(column.values()) for column in columns.values()))
    start, end = window
    bars = []
    order = [*css, *sorted({s for column in columns.values() for s in column} - set(css))]
    for begin in sorted(columns):
        base = float(CHART_HEIGHT)
        for status in order:
            count = columns[begin][status]
            if not count:
                continue
            height = CHART_HEIGHT * count / top
            base -= height
            when = f"{seconds(begin - start)} to {seconds(begin - start + width_ns)}"
            tip = f"{plural(count, 'operation')} {status}\n{when}"
            x, wide = _slot(begin, width_ns, start, end)
            bars.append(Bar(x, wide, base, height, css.get(status, default), tip))
    levels = tuple(Tick(CHART_HEIGHT * (1 - part), number(round(top * part))) for part in (0.5, 1))
    return Chart(title, f"per {duration(width_ns)}", tuple(bars), time_ticks(0, end - start), levels, ())


def latency_charts(rates: Sequence[RateRow], start_ns: int, end_ns: int) -> list[Chart]:
    """One chart for each of the operations that took most time in all: from mean to maximum, log scale."""
    spent: Counter[str] = Counter()
    for row in rates:
        spent[row.op] += row.mean_ns * row.count
    ops = [op for op, _ in sorted(spent.items(), key=lambda item: (-item[1], item[0]))][:MAX_CHARTS]
    end = _end(rates, end_ns)
    return [_latency(op, [r for r in rates if r.op == op], start_ns, end) for op in ops]


def _latency(op: str, rows: list[RateRow], start: int, end: int) -> Chart:
    columns: dict[int, list[int]] = {}
    for row in rows:
        column = columns.setdefault(row.start_ns, [0, 0, 0])
        column[0] += row.count
        column[1] += row.mean_ns * row.count
        column[2] = max(column[2], row.max_ns)
    width_ns = rows[0].width_ns
    means = {begin: max(1, time // max(1, count)) for begin, (count, time, _) in columns.items()}
    low = math.floor(math.log10(min(means.values())))
    high = max(low + 1, math.ceil(math.log10(max(2, *(c[2] for c in columns.values())))))

    def level(ns: float) -> float:
        return CHART_HEIGHT * (1 - (math.log10(max(1.0, ns)) - low) / (high - low))

    bars = []
    for begin in sorted(columns):
        count, _, most = columns[begin]
        mean = means[begin]
        when = f"{seconds(begin - start)} to {seconds(begin - start + width_ns)}"
        tip = f"{op}: mean {duration(mean)}, maximum {duration(most)}, {plural(count, 'operation')}\n{when}"
        x, wide = _slot(begin, width_ns, start, end)
        top, middle = level(most), level(mean)
        bars.append(Bar(x, wide, top, max(0.0, middle - top), "range", tip))
        bars.append(Bar(x, wide, middle - 1.5, 3, "mean", tip))
    decades = range(low, high + 1)
    levels = tuple(Tick(level(10**d), _decade(d)) for d in decades if d > low and (high - d) % 2 == 0)
    key = (("mean", "mean"), ("range", "up to the maximum"))
    return Chart(op, f"per {duration(width_ns)}", tuple(bars), time_ticks(0, end - start, 5), levels, key)


def distribution(row: LatencyRow, low_ns: int, high_ns: int) -> tuple[Bar, ...]:
    """Where the percentiles of a row lie on a log scale that all rows share: p50 to p99, on to the max."""
    span = math.log10(high_ns / low_ns) or 1.0

    def at(ns: int) -> float:
        return 100 * min(1.0, max(0.0, math.log10(max(1, ns) / low_ns) / span))

    half, most = at(row.p50_ns), at(row.max_ns)
    p99 = at(row.p99_ns)
    return (
        Bar(half, most - half, 8, 2, "tail", ""),
        Bar(half, p99 - half, 5, 8, "body", ""),
        Bar(half, 0.6, 3, 12, "median", ""),
    )


def nice(value: int) -> int:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 1:
        return 1
    power = int(10 ** math.floor(math.log10(value)))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= value)


def _decade(power: int) -> str:
    names = ("ns", "µs", "ms", "s")
    unit = min(max(power, 0) // 3, 3)
    return f"{10 ** (power - 3 * unit)} {names[unit]}"


def _slot(begin: int, width_ns: int, start: int, end: int) -> tuple[float, float]:
    """Place of an interval: percent from the left, and its width with a little air."""
    span = max(1, end - start)
    return 100 * (begin - start) / span, 92 * width_ns / span


def _end(rates: Sequence[RateRow], end_ns: int) -> int:
    return max([end_ns, *(r.start_ns + r.width_ns for r in rates)])
