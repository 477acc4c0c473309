"""The summary for a terminal: verdict, coverage, findings (one line per rule), what to do next.

`show` fits the console: its width, and on a terminal its height. `FORMAT` renders the same without
colour, 80 columns wide, with every rule that has findings.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from analyzer.core.finding import Finding, Severity, Verdict
from analyzer.report.format import Format
from analyzer.report.text import counted, duration, number, plural, utc
from analyzer.report.verdict import losses
from analyzer.report.view import ReportView

STYLE = {
    Severity.CRITICAL: "bold white on red",
    Severity.HIGH: "bold red",
    Severity.MEDIUM: "yellow",
    Severity.LOW: "cyan",
    Severity.INFO: "dim",
}
_NARROW = 64
_ALL_LINES = 20  # as many as any sentence takes
_SENTENCE_LINES = 2
_REMEDY_LINES = 3
#: severity and confidence columns, and the space between four columns
_FIXED = 8 + 6 + 3 * 2
#: Sentences on what the input lost; the rest is counted.
_LOSSES = 3


@dataclass(frozen=True, slots=True)
class Fit:
    """How much of the findings is printed: `shown` rules, the first `full` of them in up to `lines` lines,
    and remedies in up to `remedy`."""

    shown: int
    full: int
    lines: int = _SENTENCE_LINES
    remedy: int = _REMEDY_LINES


def show(view: ReportView, console: Console) -> None:
    """Print the summary; on a terminal as many findings as fit its height, always the worst."""
    groups = list(view.by_rule().values())
    fit = Fit(len(groups), len(groups), _ALL_LINES, _ALL_LINES)
    if console.is_terminal:
        room = console.height - 1  # the prompt
        smaller = [Fit(len(groups), len(groups), lines) for lines in (_ALL_LINES, 3)]
        smaller += [Fit(len(groups), full) for full in range(len(groups), 0, -1)]
        # the verdict says the worst in full, so that its row may be cut before another rule's is dropped
        smaller += [Fit(shown, full, remedy=2) for shown in range(len(groups), 0, -1) for full in (1, 0)]
        while smaller and len(console.render_lines(_body(view, groups, fit, console), pad=False)) > room:
            fit = smaller.pop(0)
    console.print(_body(view, groups, fit, console), markup=False, highlight=False, emoji=False)


def render(view: ReportView) -> str:
    """The summary as plain text, 80 columns wide."""
    out = io.StringIO()
    show(view, Console(file=out, width=80, force_terminal=False, color_system=None, legacy_windows=False))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _body(view: ReportView, groups: list[list[Finding]], fit: Fit, console: Console) -> RenderableType:
    parts: list[RenderableType] = [_headline(view), *_coverage(view)]
    if groups:
        parts += [Text(), _findings(view, groups[: fit.shown], fit, console)]
        if fit.shown < len(groups):
            rest = sum(len(g) for g in groups[fit.shown :])
            text = f"… {plural(rest, 'finding')} of {plural(len(groups) - fit.shown, 'more rule')}"
            parts.append(Text(f"{text}: -o DIR writes the whole report", style="dim"))
        if fit.full == len(groups):
            parts.append(Text())
        parts += _next_steps(groups, fit.remedy, console)
    parts.append(_rules(view))
    return Group(*parts)


def _headline(view: ReportView) -> Text:
    worst = view.findings[0].severity if view.findings else None
    counts = Counter(j.verdict for j in view.judgements)
    if worst is not None:
        badge, style = f" {str(worst).upper()} ", STYLE[worst]
    elif view.coverage.severe or not counts[Verdict.UPHELD]:
        badge, style = " UNKNOWN ", "bold black on yellow"
    elif counts[Verdict.UNKNOWN] or view.coverage.degraded:
        badge, style = " NO FAULT SEEN ", "bold black on yellow"
    else:
        badge, style = " CLEAN ", "bold black on green"
    return Text.assemble((badge.strip() if worst not in (None, Severity.CRITICAL) else badge, style),
                         " ", view.verdict)  # fmt: skip


def _coverage(view: ReportView) -> list[Text]:
    seen = [counted(count, noun) for noun, count in view.coverage.seen.items()]
    if view.coverage.first_ns is not None:
        seen.append(f"{duration(view.end_ns - view.start_ns)} from {utc(view.start_ns)}")
    lines = [Text.assemble(("Seen  ", "bold"), " · ".join(seen) or "nothing")]
    lost = [n for n in view.coverage.notes if n.loss is not None]
    if lost:
        remedy = next((n.remedy for n in lost if n.remedy), "")
        said = " · ".join(n.text for n in lost[:_LOSSES])
        if len(view.by_rule()) > _LOSSES:  # there is no room for sentences
            said = losses(view.coverage)
        elif len(lost) > _LOSSES:
            said += f" · {plural(len(lost) - _LOSSES, 'more loss', 'more losses')}"
        lines.append(
            Text.assemble(("Lost  ", "bold yellow"), said, (f" → {remedy}" if remedy else "", "dim"))
        )
    facts = [n.text for n in view.coverage.notes if n.loss is None]
    if facts:
        more = f" (and {plural(len(facts) - 1, 'more note')})" if len(facts) > 1 else ""
        lines.append(Text.assemble(("Note  ", "bold"), facts[0], more))
    return lines


def _findings(view: ReportView, groups: list[list[Finding]], fit: Fit, console: Console) -> RenderableType:
    alone = _one_file(view)
    if console.width < _NARROW:
        return Group(*(_stacked(group, alone, fit.lines, console) for group in groups))
    places = [_place(group[0], alone) for group in groups]
    heading = "frame" if alone else "evidence"
    evidence = min(max(map(len, [*places, heading])), console.width // 4)
    sentence = console.width - _FIXED - evidence
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold underline")
    table.add_column("severity", width=8, no_wrap=True)
    table.add_column("sure", width=6, no_wrap=True)
    table.add_column("finding", width=sentence)
    table.add_column(heading, width=evidence, no_wrap=True, overflow="ellipsis")
    for index, (group, place) in enumerate(zip(groups, places, strict=True)):
        worst = group[0]
        lines = fit.lines if index < fit.full else 1
        table.add_row(
            Text(str(worst.severity), style=STYLE[worst.severity]),
            str(worst.confidence),
            _clip(Text.assemble(*_sentence(group)), sentence, lines, console),
            Text(_end_of(place, evidence), style="dim"),
        )
    return table


def _end_of(place: str, width: int) -> str:
    """A place that fits: the end tells more than the beginning, which is folders."""
    return place if len(place) <= width else f"…{place[1 - width :]}"


def _stacked(group: list[Finding], alone: bool, lines: int, console: Console) -> Text:
    """A finding on a terminal too narrow for a table."""
    worst = group[0]
    text = Text.assemble(
        (str(worst.severity), STYLE[worst.severity]), f", {worst.confidence} confidence, ",
        (f"{_place(worst, alone)}\n", "dim"), *_sentence(group),
    )  # fmt: skip
    return _clip(text, console.width, lines + 1, console)


def _sentence(group: list[Finding]) -> list[str | tuple[str, str]]:
    """The worst finding of a rule, of how many, and the rule's id, for `explain`."""
    count = f"1 of {number(len(group))}: " if len(group) > 1 else ""
    return [(count, "bold"), group[0].title, (f" [{group[0].rule}]", "dim")]


def _one_file(view: ReportView) -> bool:
    """True if all evidence is in one file, so that its name need not be repeated."""
    return len({r.rpartition("#")[0] for f in view.findings for r in f.evidence if "#" in r}) == 1


def _place(finding: Finding, alone: bool) -> str:
    if not finding.evidence:
        return "-"
    _, mark, place = finding.evidence[0].rpartition("#")
    return f"#{place}" if mark and alone else finding.evidence[0]


def _clip(text: Text, width: int, lines: int, console: Console) -> Text:
    """At most so many lines; what is left out shows as an ellipsis."""
    wrapped = text.wrap(console, width)
    if len(wrapped) <= lines:
        return text
    for line in wrapped:
        line.rstrip()
    last = Text(" ").join(wrapped[lines - 1 :])
    last.truncate(width, overflow="ellipsis")
    return Text("\n").join([*wrapped[: lines - 1], last])


def _next_steps(groups: list[list[Finding]], lines: int, console: Console) -> list[RenderableType]:
    """The remedies of the worst finding and, if it differs, of the next rule's."""
    steps: list[str] = []
    for group in groups:
        remedy = " ".join(group[0].remedy.split())
        if remedy and remedy not in steps:
            steps.append(remedy)
    parts: list[RenderableType] = []
    for index, step in enumerate(steps[:2]):
        head = Text("Next" if index == 0 else "", style="bold")
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(width=4)
        row.add_column()
        row.add_row(head, _clip(Text(step), console.width - 6, lines, console))
        parts.append(row)
    return parts


def _rules(view: ReportView) -> Text:
    counts = Counter(j.verdict for j in view.judgements)
    styles = {Verdict.VIOLATED: "red", Verdict.UPHELD: "green", Verdict.UNKNOWN: "yellow"}
    text = Text("Rules ", style="bold")
    for i, verdict in enumerate(Verdict):
        text.append(" · " if i else "", style="default")
        text.append(f"{counts[verdict]} {verdict.value}", style=f"not bold {styles.get(verdict, '')}")
    return text


FORMAT = Format("terminal", "txt", render)
