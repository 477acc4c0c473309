"""The view: verdict paragraph, timelines, bounds, and text made harmless."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.analysis.clients import ClientRow
from analyzer.analysis.latency import RateRow
from analyzer.analysis.locks import LockHold, LockWait
from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Judgement, Severity, Verdict
from analyzer.core.rule import Outcome
from analyzer.core.table import Tables
from analyzer.report import timeline
from analyzer.report.text import byte_range, cleaned, duration, seconds, utc, visible
from analyzer.report.verdict import paragraph
from analyzer.report.view import MAX_INTERVALS, MAX_WAITS, ReportView, build_view, joined
from tests.unit.report.sample import T0, S, empty_view, sample_view


def view_of(tables: Tables) -> ReportView:
    coverage = Coverage({}, (), T0, T0 + 100 * S)
    return build_view(Outcome((), ()), coverage, tables, version="1", title="t")


def hold(client: str, start: float, end: float | None, handle: str = "f", offset: int = 0) -> LockHold:
    ends = None if end is None else T0 + int(end * S)
    fate = "open" if end is None else "unlock"
    first = T0 + int(start * S)
    return LockHold(
        "srv:2049", client, "o", handle, None, offset, 10, "write", first, ends, fate, "c#1", "c#2"
    )


def wait(client: str, asked: float, held: float, backoff: float, handle: str = "f") -> LockWait:
    begin, end = T0 + int(asked * S), T0 + int((asked + held + backoff) * S)
    return LockWait(
        "srv:2049", client, "o", handle, "/f", 0, 10, "write", True, begin, end, end, 2, int(held * S), 0,
        int(backoff * S), False, "A", "o", end - int(backoff * S), ("c#3", "c#4"),
    )  # fmt: skip


def test_verdict_names_the_worst_culprit_with_its_number_and_what_is_missing() -> None:
    text = sample_view().verdict
    assert text.startswith("Client 10.20.30.5 lost its write lock 0+100 on /export/train/data.db")
    assert "wrote 3 times after it (critical, high confidence)" in text
    assert "19 findings of 6 rules in all: 1 critical, 2 high, 14 medium, 1 low, 1 info." in text
    assert "1 rule could not be judged (tiny-io)." in text
    assert "incomplete (120 truncated frames, 8 lost TCP segments): confidence is lowered." in text


def test_verdict_never_calls_clean_what_nobody_judged() -> None:
    def judged(*verdicts: Verdict, coverage: Coverage | None = None) -> str:
        judgements = tuple(Judgement(f"r{i}", v) for i, v in enumerate(verdicts))
        return paragraph(Outcome((), judgements), coverage or Coverage({"operations": 5, "clients": 2}))

    assert judged(Verdict.UPHELD) == "1 rule looked at 5 operations of 2 clients and found no fault."
    assert "no all-clear" in judged(Verdict.UPHELD, Verdict.UNKNOWN)
    assert "no all-clear" in judged(Verdict.UNKNOWN)
    assert judged(Verdict.NOT_EXERCISED).startswith("Nothing to judge")
    lossy = Coverage(notes=(Note("cut", Loss.CUT),), severe=True, blind=True)
    assert "no all-clear" in judged(Verdict.UPHELD, coverage=lossy)
    assert "so much is missing" in judged(Verdict.UPHELD, coverage=lossy)


def test_timeline_splits_a_wait_into_wait_and_back_off() -> None:
    tables = Tables()
    tables.of(ClientRow).append(
        ClientRow("B", "10.0.0.7", "srv:2049", None, (), ("10.0.0.7",), (), T0, T0 + 9 * S, 3)
    )
    tables.of(LockHold).extend([hold("A", 1, 6.5), hold("B", 8.01, None)])
    tables.of(LockWait).append(wait("B", 1.0, 5.5, 1.51))
    (found,) = view_of(tables).timelines
    assert (found.file, found.waits, found.waited_ns) == ("/f", 1, 7_010_000_000)
    lanes = {lane.client: lane for lane in found.lanes}
    assert [(s.kind, s.start_ns - T0, s.end_ns - T0, s.open_end) for s in lanes["10.0.0.7"].segments] == [
        ("wait", 1 * S, int(6.5 * S), False),
        ("back-off", int(6.5 * S), int(8.01 * S), False),
        ("hold", int(8.01 * S), 100 * S, True),
    ]
    assert "5.50 s behind A" in lanes["10.0.0.7"].segments[0].detail
    assert lanes["10.0.0.7"].segments[0].refs == ("c#3", "c#4")
    assert [s.kind for s in lanes["A"].segments] == ["hold"]


def test_overlapping_holds_of_a_client_get_rows_of_their_own() -> None:
    tables = Tables()
    holds = [hold("A", 0, 10), hold("A", 5, 15, offset=100), hold("A", 10, 20), hold("B", 1, 2)]
    tables.of(LockHold).extend(holds)
    (found,) = view_of(tables).timelines
    lane = next(lane for lane in found.lanes if lane.client == "A")
    assert [s.row for s in lane.segments] == [0, 1, 0] and lane.rows == 2


def test_files_that_nobody_shares_have_no_timeline() -> None:
    tables = Tables()
    tables.of(LockHold).extend([hold("A", 0, 1, "mine"), hold("B", 0, 1, "yours")])
    assert view_of(tables).timelines == ()


def test_segments_and_files_are_capped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_SEGMENTS", 40)
    tables = Tables()
    for number in range(25):
        for turn in range(10):
            tables.of(LockHold).append(hold("A", turn, turn + 0.1 + turn / 100, f"f{number}"))
        tables.of(LockWait).append(wait("B", 1, 1 + number, 0, f"f{number}"))
    view = view_of(tables)
    assert len(view.timelines) == 20 and view.left_out["files with shared locks"] == 5
    assert sum(len(lane.segments) for t in view.timelines for lane in t.lanes) == 40
    assert view.left_out["lock segments"] == 20 * 9
    longest = view.timelines[0]
    assert longest.waited_ns == 25 * S
    assert [s.kind for lane in longest.lanes for s in lane.segments] == ["wait", "hold"]
    assert longest.lanes[1].segments[0].start_ns == T0 + 9 * S, "the longest hold stays"


def test_waits_are_the_longest_and_the_rest_is_counted() -> None:
    view = sample_view()
    assert len(view.waits) == MAX_WAITS and view.left_out["waits"] == 63 - MAX_WAITS
    assert [w.last_ns - w.asked_ns for w in view.waits[:3]] == [
        15_400_000_000,
        13_000_000_000,
        7_010_000_000,
    ]
    assert view.waits[2].client == "10.20.30.7" and view.waits[2].holder_client == "10.20.30.5"


def test_rates_merge_into_few_intervals_without_losing_a_count() -> None:
    tables = Tables()
    for second in range(1000):
        tables.of(RateRow).append(RateRow(T0 + second * S, S, "READ", "ok", 2, 100 + second, 500 + second))
    rates = view_of(tables).rates
    assert len(rates) <= MAX_INTERVALS and sum(r.count for r in rates) == 2000
    assert {r.width_ns for r in rates} == {16 * S}
    assert rates[0].mean_ns == 107 and rates[-1].max_ns == 1499


def test_inputs_show_no_folder_of_the_machine() -> None:
    assert sample_view().coverage.inputs == ("incident-42.pcapng",)


def test_an_empty_input_makes_a_view() -> None:
    view = empty_view()
    assert (view.start_ns, view.end_ns, view.findings, view.left_out) == (0, 0, (), {})


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("größe 日本", "größe 日本"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\r\tc\x00\x7f\x9b", "a\\nb\\r\\tc\\x00\\x7f\\x9b"),
        ("\u202egnp\u2069\u200f\ufeff", "\\u202egnp\\u2069\\u200f\\ufeff"),
        ("\u2028\ud800\ufffe\U000e0041", "\\u2028\\ud800\\ufffe\\U000e0041"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 3),
        ("a" * 1000, "a" * 200 + "…" + "a" * 99),
    ],
)
def test_hidden_characters_are_shown(raw: str, shown: str) -> None:
    assert visible(raw) == shown


def test_only_prose_keeps_its_lines() -> None:
    assert cleaned("a\nb", "remedy") == "a\nb"
    assert cleaned("a\nb", "title") == "a\\nb"


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (830_000, "830 µs"),
        (999_999, "1.00 ms"),
        (12_340_000, "12.3 ms"),
        (1_510_000_000, "1.51 s"),
        (7_010_000_000, "7.01 s"),
        (125 * S, "2 min 5 s"),
        (3 * 3600 * S, "3 h 0 min"),
        (-5, "-5 ns"),
    ],
)
def test_durations(ns: int, said: str) -> None:
    assert duration(ns) == said


def test_moments_and_ranges() -> None:
    assert seconds(5_503_214_999) == "5.503214 s" and seconds(-1_500_000_000, 1) == "-1.5 s"
    assert utc(T0) == "2026-12-01 02:20:46.650749 UTC"
    assert utc(10**21) == f"{10**21} ns since 1970"
    assert [byte_range(0, -1), byte_range(5, -1), byte_range(0, 10)] == ["whole file", "5+eof", "0+10"]


def test_reports_of_several_witnesses_are_one() -> None:
    first, second = sample_view(), sample_view()
    other = replace(
        second,
        title="manifests",
        coverage=Coverage(seen={"files": 2}, inputs=("a.yaml",), severe=True),
        findings=tuple(replace(f, severity=Severity.CRITICAL) for f in second.findings[:1]),
        judgements=(),
    )
    both = joined(first, other)
    assert len(both.findings) == len(first.findings) + 1
    assert both.findings[0].severity is Severity.CRITICAL
    assert both.coverage.seen == {**first.coverage.seen, "files": 2} and both.coverage.severe
    assert both.title == f"{first.title} + manifests" and both.waits == first.waits
    assert str(len(both.findings)) in both.verdict
