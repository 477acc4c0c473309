"""GitHub-flavoured Markdown, to paste into an issue or a chat.

Text from the input can't become markup: punctuation is escaped, and links, mentions and issue numbers
are broken up, so that pasting a report calls nobody and links nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.core.finding import Finding, Verdict
from analyzer.report.format import Format
from analyzer.report.text import byte_range, counted, duration, number, plural, seconds, utc
from analyzer.report.verdict import losses
from analyzer.report.view import ReportView

_SHOWN = 20
_REFERENCES = 6
_WAITS = 20
_PUNCTUATION = re.compile(r"([\\`*_\[\]<>!|~$])|^(?=[#+-])")
#: what viewers turn into a mention, an issue, or a mail address
_REFERENCE = re.compile(r"(@|#(?=\d))")
_AUTOLINK = re.compile(r"(?i)(?:(?<=https)|(?<=http)|(?<=ftp)|(?<=mailto)|(?<=xmpp)):|(?<=\bwww)\.")


def render(view: ReportView) -> str:
    """The report as one Markdown document."""
    parts = [
        f"# Storage report: {escape(view.title)}",
        escape(view.verdict),
        *_coverage(view),
        *_findings(view),
        *_waits(view),
        *_judgements(view),
        f"storage-analyzer {escape(view.version)}{', names are masked' if view.redacted else ''}",
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text as itself on one line, also in a table cell."""
    text = " ".join(text.split("\n")).replace("&", "&amp;")
    text = _PUNCTUATION.sub(lambda m: "\\" + m[0], text)
    text = _REFERENCE.sub(r"\1<!-- -->", text)
    return _AUTOLINK.sub(lambda m: "&#58;" if m[0] == ":" else "&#46;", text)


def prose(text: str) -> str:
    """Like `escape`, with what stands between backticks as code spans."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(code(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def code(text: str) -> str:
    """Text in a code span, also in a table cell; a backtick in it becomes an apostrophe."""
    text = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text else ""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _coverage(view: ReportView) -> list[str]:
    seen = [escape(counted(count, noun)) for noun, count in view.coverage.seen.items()]
    if view.coverage.first_ns is not None:
        seen.append(f"{duration(view.end_ns - view.start_ns)} from {utc(view.start_ns)}")
    lines = [f"- Seen: {', '.join(seen) or 'nothing'}"]
    if view.coverage.degraded:
        lines.append(f"- **Answers are incomplete**: {escape(losses(view.coverage))}")
    for note in view.coverage.notes:
        remedy = f" To do: {prose(note.remedy)}." if note.remedy else ""
        lines.append(f"- {escape(note.text)}.{remedy}")
    return ["## Coverage", "\n".join(lines)]


def _findings(view: ReportView) -> list[str]:
    if not view.findings:
        return []
    parts = [f"## Findings ({number(len(view.findings))})"]
    for rule, group in view.by_rule().items():
        worst = group[0]
        parts.append(f"### {str(worst.severity).capitalize()}: {escape(view.rule_title(rule))}")
        rows = [_row(finding, view.start_ns) for finding in group[:_SHOWN]]
        parts.append(_table(("severity", "confidence", "at", "finding", "look first at", "evidence"), rows))
        if len(group) > _SHOWN:
            parts.append(f"and {plural(len(group) - _SHOWN, 'more finding')} of this rule")
        if worst.explanation:
            parts.append(prose(worst.explanation))
        parts.append(f"**What to do:** {prose(worst.remedy)} ({code(worst.docs)})")
    return parts


def _row(finding: Finding, start_ns: int) -> tuple[str, ...]:
    places = ", ".join(code(r) for r in finding.evidence[:_REFERENCES])
    more = len(finding.evidence) - _REFERENCES
    return (
        str(finding.severity),
        str(finding.confidence),
        seconds(finding.when[0] - start_ns) if finding.when else "",
        escape(finding.title),
        f"the {finding.blame}",
        places + (f" and {more} more" if more > 0 else ""),
    )


def _waits(view: ReportView) -> list[str]:
    if not view.waits:
        return []
    rows = [
        (
            duration(wait.last_ns - wait.asked_ns),
            escape(wait.client),
            escape(wait.path or wait.object),
            byte_range(wait.offset, wait.length),
            f"{duration(wait.hold_ns)} behind {escape(wait.holder_client or 'an unknown holder')}",
            duration(wait.queue_ns),
            duration(wait.backoff_ns),
            ", ".join(code(r) for r in wait.evidence[:3]),
        )
        for wait in view.waits[:_WAITS]
    ]
    head = ("waited", "client", "file", "range", "hold", "queue", "back-off", "evidence")
    return ["## Longest lock waits", _table(head, rows)]


def _judgements(view: ReportView) -> list[str]:
    if not view.judgements:
        return []
    rows = [
        (code(j.rule), f"**{j.verdict.value}**" if j.verdict is Verdict.VIOLATED else j.verdict.value,
         number(j.findings), escape(j.reason))
        for j in view.judgements
    ]  # fmt: skip
    return ["## Verdict of every rule", _table(("rule", "verdict", "findings", "reason"), rows)]


FORMAT = Format("markdown", "md", render)
