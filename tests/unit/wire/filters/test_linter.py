from __future__ import annotations

import pytest

from analyzer.wire.filters.fault import Level
from analyzer.wire.filters.linter import glossary, lint, needs
from analyzer.wire.filters.parser import parse
from tests.unit.wire.filters.examples import ARTICLE, RIGHT, WRONG


def test_there_are_enough_examples() -> None:
    assert len(RIGHT) >= 80 and len(WRONG) >= 80


@pytest.mark.parametrize("text", RIGHT)
def test_right_filters_pass_silently(text: str) -> None:
    result = lint(text)
    assert result.faults == ()
    assert result.corrected == "" and not result.wrong


@pytest.mark.parametrize("text", WRONG, ids=repr)
def test_wrong_filters_are_named(text: str) -> None:
    result = lint(text)
    assert result.wrong
    assert WRONG[text] <= {fault.rule for fault in result.faults}
    for fault in result.faults:
        assert 0 <= fault.span.start <= fault.span.end <= max(len(text), fault.span.start + 1)
        assert fault.message and fault.source


@pytest.mark.parametrize("text", WRONG, ids=repr)
def test_corrections_are_right_themselves(text: str) -> None:
    result = lint(text)
    if result.corrected:
        assert parse(result.corrected) is not None
        assert not [f for f in lint(result.corrected).faults if f.edits], "repair has come to rest"


def test_the_article_filter_has_all_six_faults_named_and_repaired() -> None:
    result = lint(ARTICLE)
    by_rule = {fault.rule: fault for fault in result.faults}
    assert "LOCK is 12" in by_rule["lock-opcode"].message and "OPEN is 18" in by_rule["lock-opcode"].message
    assert by_rule["unknown-field"].span.start == ARTICLE.index("nfs.lock_owner")
    assert "nfs.lock_owner4" in by_rule["unknown-field"].message
    assert ARTICLE[by_rule["status-not-equal-zero"].span.start :].startswith("nfs.status != 0")
    assert "mixes calls and replies" in by_rule["call-and-reply"].message
    assert "4.0 alone" in by_rule["open-confirm"].message
    assert "the last of the reply" in by_rule["op-status-untied"].message
    assert ARTICLE[by_rule["precedence"].span.start :].startswith("||")
    assert result.corrected == (
        "rpc.msgtyp == 1 && ((nfs.opcode in {12, 13, 14} && nfs.nfsstat4 > 0)"
        " || (nfs.opcode == 12 && nfs.lock_owner4))"
    )
    assert result.leftover == ()


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("nfs.nfsstat4!=0", "nfs.nfsstat4 > 0"),
        ("!(nfs.nfsstat4 == 0) && rpc", "nfs.nfsstat4 > 0 && rpc"),
        ("nfs.nfsstat4 == 0", "nfs.nfsstat4 === 0"),
        ("nfs.nfsstat4 ~= 0", "nfs.nfsstat4 > 0"),
        ("rpc.msgtyp == 0 && !rpc.repframe", "rpc.msgtyp == 0 && !rpc.reqframe"),
        ("nfs && !rpc.repframe", "nfs && (rpc.msgtyp == 0 && !rpc.reqframe)"),
        ("nfs.opcode in {12 13 14}", "nfs.opcode in {12, 13, 14}"),
        ("tcp port 2049", "nfs"),
        ("a.b == 1 and nfs or rpc", "(a.b == 1 and nfs) or rpc"),
        ("nfs.opcode == 18 && nfs.nfsstat4 == 10010", "nfs.opcode == 18 && nfs.nfsstat4 == 10015"),
        ("nfs.session_id4 == 0xa0b0c", "nfs.session_id4 == 0a:0b:0c"),
        ("12 < nfs.opcode", "nfs.opcode > 12"),
        ("nfs.length4 == -1", "nfs.length4 == 0xffffffffffffffff"),
        ("nfs.opcode = 12 AND nfs.nfsstat4 != 0", "nfs.opcode == 12 and nfs.nfsstat4 > 0"),
    ],
)
def test_corrected_text(text: str, corrected: str) -> None:
    assert lint(text).corrected == corrected


def test_faults_behind_a_syntax_error_are_told_too() -> None:
    result = lint("nfs.opcode = 12 && nfs.nfsstat4 != 0")
    assert [f.rule for f in result.faults] == ["syntax"]
    ((text, faults),) = result.uncovered
    assert text == "nfs.opcode == 12 && nfs.nfsstat4 != 0"
    assert "status-not-equal-zero" in {f.rule for f in faults}


def test_an_alias_alone_is_only_a_note() -> None:
    result = lint("nfs.status > 0")
    assert [f.level for f in result.faults] == [Level.NOTE]
    assert not result.wrong and result.corrected == ""


def test_numbers_are_explained_and_needs_are_told() -> None:
    reading = lint("rpc.msgtyp == 0 && nfs.opcode in {12, 18} && !rpc.reqframe && nfs.name").reading
    assert glossary(reading) == ("rpc.msgtyp 0 = call", "nfs.opcode 12 = LOCK", "nfs.opcode 18 = OPEN")
    assert [option for option, _ in needs(reading)] == ["-2", "-o nfs.file_name_snooping:TRUE"]


def test_many_alternatives_and_deep_nesting_are_bounded() -> None:
    wide = " && ".join(f"(nfs.opcode == {n} || tcp.port == {n})" for n in range(3, 60))
    assert lint(wide).faults == ()
    assert lint("(" * 500 + "nfs" + ")" * 500).faults[0].rule == "syntax"
    assert lint("!" * 3000 + "nfs").faults[0].rule == "syntax"
    assert lint("x" * 5000).faults[0].rule == "unusable"
