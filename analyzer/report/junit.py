"""JUnit XML, as CI systems read it: one test case per rule.

violated → failure, unknown → error (it could not be judged: that is no pass), not exercised → skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

from analyzer.core.finding import Finding, Judgement, Verdict
from analyzer.report.format import Format
from analyzer.report.text import plural, seconds
from analyzer.report.view import ReportView

_SHOWN = 100
_REFERENCES = 8
#: what XML 1.0 forbids even as a character reference (section 2.2, production Char)
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(view: ReportView) -> bytes:
    """The judgements as a test suite, UTF-8."""
    counts = Counter(j.verdict for j in view.judgements)
    totals = {
        "tests": str(len(view.judgements)),
        "failures": str(counts[Verdict.VIOLATED]),
        "errors": str(counts[Verdict.UNKNOWN]),
        "skipped": str(counts[Verdict.NOT_EXERCISED]),
        "time": "0",
    }
    root = ET.Element("testsuites", {"name": "storage-analyzer", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": legal(view.title), **totals})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("version", view.version), ("verdict", view.verdict)):
        ET.SubElement(properties, "property", {"name": name, "value": legal(value)})
    groups = view.by_rule()
    for judgement in view.judgements:
        _case(suite, judgement, groups.get(judgement.rule, []), view)
    ET.SubElement(suite, "system-out").text = legal("\n".join(n.text for n in view.coverage.notes))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'.encode()


def legal(text: str) -> str:
    """The text without what XML 1.0 can't hold."""
    return _ILLEGAL.sub("�", text)


def _case(suite: ET.Element, judgement: Judgement, findings: list[Finding], view: ReportView) -> None:
    case = ET.SubElement(
        suite, "testcase", {"name": judgement.rule, "classname": "storage-analyzer", "time": "0"}
    )
    reason = legal(judgement.reason)
    if judgement.verdict is Verdict.NOT_EXERCISED:
        ET.SubElement(case, "skipped", {"message": reason})
    elif judgement.verdict is Verdict.UNKNOWN:
        ET.SubElement(case, "error", {"message": reason, "type": "unknown"})
    elif judgement.verdict is Verdict.VIOLATED:
        worst = str(findings[0].severity) if findings else "unknown"
        message = findings[0].title if findings else reason
        failure = ET.SubElement(case, "failure", {"message": legal(message), "type": worst})
        lines = [_line(f, view.start_ns) for f in findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            lines.append(f"... and {plural(len(findings) - _SHOWN, 'more finding')}")
        if findings:
            lines.append(f"What to do: {findings[0].remedy}")
        failure.text = legal("\n".join(lines))


def _line(finding: Finding, start_ns: int) -> str:
    """`high (medium confidence) at 2.020000 s: sentence [file#1, file#2]`."""
    when = f" at {seconds(finding.when[0] - start_ns)}" if finding.when else ""
    places = ", ".join(finding.evidence[:_REFERENCES])
    return f"{finding.severity} ({finding.confidence} confidence){when}: {finding.title} [{places}]"


FORMAT = Format("junit", "xml", render)
