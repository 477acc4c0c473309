from __future__ import annotations

import io

import pytest
from rich.console import Console

from analyzer.wire.filters.catalogue import CATALOGUE
from analyzer.wire.filters.command import FilterReport, filter_command
from analyzer.wire.filters.compiling import Compiled, compile_filter
from analyzer.wire.filters.render import excerpt, render
from analyzer.wire.filters.syntax import Span
from analyzer.wire.tshark import Tshark
from tests.unit.wire.filters.examples import ARTICLE


def printed(report: FilterReport, terminal: bool = False) -> str:
    out = io.StringIO()
    render(report, Console(file=out, force_terminal=terminal, _environ={}, width=80))
    return out.getvalue()


def accepting(text: str) -> Compiled:
    return Compiled(True, version="4.0.17")


def test_without_expression_the_catalogue_is_shown_in_80_columns() -> None:
    report = filter_command(None)
    text = printed(report)
    assert report.exit_code == 0
    assert max(map(len, text.splitlines())) <= 80
    for entry in CATALOGUE:
        assert f"  {entry.filter}\n" in text and entry.question in text
    assert "\x1b" not in text and "\x1b" in printed(report, terminal=True)


def test_catalogue_is_complete_and_unique() -> None:
    assert len({e.id for e in CATALOGUE}) == len(CATALOGUE) >= 30
    for entry in CATALOGUE:
        arguments = entry.arguments("x.pcap")
        assert arguments[arguments.index("-Y") + 1] == entry.filter
        assert "tcp.try_heuristic_first:TRUE" in arguments
        assert ("-2" in arguments) == ("rpc.reqframe" in entry.filter)


def test_a_right_filter_exits_0() -> None:
    report = filter_command("nfs.nfsstat4 > 0", accepting)
    assert report.exit_code == 0
    assert "The filter is right." in printed(report)


def test_words_that_are_no_filter_exit_2_and_a_slip_that_can_be_mended_exits_1() -> None:
    words = filter_command("hello world", accepting)
    assert words.exit_code == 2 and words.lint is not None and not words.lint.corrected
    slip = filter_command("nfs.opcode = 12", accepting)
    assert slip.exit_code == 1 and slip.lint is not None and slip.lint.corrected == "nfs.opcode == 12"


def test_a_wrong_filter_exits_1_and_shows_carets_and_the_correction_whole() -> None:
    report = filter_command(ARTICLE, accepting)
    text = printed(report)
    assert report.exit_code == 1
    assert report.lint is not None and f"\n{report.lint.corrected}\n" in text
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if "^" in line:
            start, end = line.index("^"), line.rindex("^") + 1
            assert lines[place - 1][start:end] in ARTICLE
    assert {e.id for e in report.entries} >= {"lock-failed", "open-failed", "open-confirm"}


@pytest.mark.parametrize("text", ["", "   ", "nfs\0", "nfs\x1b]0;x\x07", "x" * 5000])
def test_no_filter_at_all_exits_2(text: str) -> None:
    report = filter_command(text, accepting)
    assert report.exit_code == 2
    assert "\x1b" not in printed(report) and "\x07" not in printed(report)


def test_what_only_tshark_knows_becomes_a_fault() -> None:
    def refusing(text: str) -> Compiled:
        return Compiled(False, '"LOCKX" is not known', 14, 5, "4.0.17")

    report = filter_command("http.host.x == LOCKX", refusing)
    assert report.exit_code == 1
    assert report.lint is not None and report.lint.faults[-1].rule == "refused"
    assert report.lint.faults[-1].span == Span(14, 19)


def test_a_repair_that_tshark_refuses_is_never_printed() -> None:
    def refusing(text: str) -> Compiled:
        return Compiled(False, "no such value", None, 1, "4.0.17")

    report = filter_command("nfs.nfsstat4 != 0 && x.y == LOCKX", refusing)
    assert report.lint is not None and report.lint.corrected == ""
    assert [f.rule for f in report.lint.faults] == ["status-not-equal-zero", "refused"]
    assert "still refuses" in printed(report) and "Corrected" not in printed(report)


def test_a_missing_tshark_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    report = filter_command("nfs.nfsstat4 > 0")
    assert report.exit_code == 0
    assert printed(report).count("is not installed") == 1
    assert compile_filter("nfs", Tshark("/nonexistent/tshark", "4.0")).ok is None


def test_hidden_characters_never_reach_the_terminal() -> None:
    report = filter_command('nfs.tag == "\u202etxet \u200b\u009b31m"', accepting)
    text = printed(report)
    assert not set(text) & {"\u202e", "\u200b", "\u009b"}


def test_markup_is_text() -> None:
    assert "[red]" in printed(filter_command('nfs.tag == "[red]x[/red]"', accepting))


def test_excerpt_of_a_long_text_keeps_the_caret_under_the_place() -> None:
    text = "a" * 100 + "WRONG" + "b" * 100
    shown, caret = excerpt(text, Span(100, 105), 40)
    assert len(shown) <= 40 and len(caret) <= 40
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "WRONG"
    assert excerpt("ab", Span(2, 2)) == ("ab", "  ^")
