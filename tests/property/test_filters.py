"""The linter reads hostile text: it never crashes, hangs, or prints a control character."""

from __future__ import annotations

import io
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from analyzer.wire.filters.command import filter_command
from analyzer.wire.filters.linter import lint
from analyzer.wire.filters.render import render
from tests.unit.wire.filters.examples import RIGHT, WRONG

_PIECES = sorted({word for text in (*RIGHT, *WRONG) for word in text.split()}) + list("(){}[]!,;#&|'\"\\ ")
#: text that looks like a filter: known words in any order
_SALAD = st.lists(st.sampled_from(_PIECES), max_size=40).map(" ".join)
_CUT = st.builds(
    lambda text, low, high: text[:low] + text[high:],
    st.sampled_from([*RIGHT, *WRONG]),
    st.integers(0, 60),
    st.integers(0, 60),
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), _SALAD, _CUT))
def test_any_text_is_judged(text: str) -> None:
    report = filter_command(text, compiler=None)
    out = io.StringIO()
    render(report, Console(file=out, width=80))
    allowed = {"\n"}
    assert not [c for c in out.getvalue() if (c < " " or c == "\x7f") and c not in allowed]
    assert report.exit_code in (0, 1, 2)
    assert report.lint is not None
    for fault in report.lint.faults:
        assert 0 <= fault.span.start <= fault.span.end <= len(text) + 1


@settings(max_examples=200, deadline=None)
@given(st.one_of(_SALAD, _CUT))
def test_repair_comes_to_rest(text: str) -> None:
    corrected = lint(text).corrected
    if corrected:
        again = lint(corrected)
        assert again.corrected in ("", corrected) or len(again.corrected) <= 4096


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(
        ["(", "!", "nfs && ", "nfs || ", "nfs == ", "{", "a[", '"', "nfs in {1,", "count(", "$", "@", "-"]
    )
)
def test_repetition_takes_bounded_time(piece: str) -> None:
    begin = time.process_time()
    lint((piece * 4096)[:4096])
    lint(piece * 4096)
    assert time.process_time() - begin < 5
