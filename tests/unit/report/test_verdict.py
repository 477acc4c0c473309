"""Sentences of the verdict that depend on what was asked for and on how long a title is."""

from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Judgement, Verdict
from analyzer.core.rule import Outcome
from analyzer.report import verdict

CLEAN = Outcome(findings=(), judgements=(Judgement("a", Verdict.UPHELD),))


def covered(*notes: Note) -> Coverage:
    return Coverage(
        seen={"operations": 3, "clients": 1}, inputs=("a",), first_ns=0, last_ns=9 * 10**9, notes=notes
    )


def test_a_chosen_time_is_not_called_the_whole_capture() -> None:
    assert "over 9.00 s" in verdict.paragraph(CLEAN, covered())
    chosen = Note("only frames in the chosen time were looked at", Loss.FILTERED)
    assert "over" not in verdict.paragraph(CLEAN, covered(chosen))


def test_a_long_second_title_ends_after_a_word() -> None:
    title = "word " * 60
    short = verdict._shortened(title)
    assert short.endswith("word …") and len(short) <= 147
    assert verdict._shortened("client a waited.") == "client a waited."
