"""Sentences of the verdict that depend on what was asked for and on how long a title is."""

import pytest

from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Blame, Confidence, Finding, Judgement, Severity, Subject, Verdict
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


def found(severity: Severity, blame: Blame, kind: str, label: str) -> Finding:
    subject = Subject(kind, f"key of {label}", label)
    return Finding("r", severity, Confidence.HIGH, subject, "t", (), None, "", "", "", {}, blame)


HIGH, MEDIUM, LOW = Severity.HIGH, Severity.MEDIUM, Severity.LOW
SERVER = (Blame.SERVER, "server", "server 10.0.0.1:2049")
PROGRAM = (Blame.APPLICATION, "file", "/export/a")


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        ([(HIGH, *SERVER)], "Look first at server 10.0.0.1:2049."),
        (
            [(HIGH, *PROGRAM), (HIGH, *SERVER), (HIGH, *SERVER), (MEDIUM, Blame.CLIENT, "client", "c")],
            "Look first at server 10.0.0.1:2049 (2 of the 3 high findings), then at the application.",
        ),
        (
            [(HIGH, *SERVER), (HIGH, Blame.SERVER, "client", "client c"), (MEDIUM, *SERVER),
             (MEDIUM, Blame.CLIENT, "client", "10.0.0.7")],
            "Look first at the server (all 2 high findings), then at client 10.0.0.7.",
        ),
        (
            [(HIGH, Blame.CLIENT, "client", "client c"), (HIGH, Blame.CLIENT, "client", "client d"),
             (LOW, *SERVER)],
            "Look first at the clients (all 2 high findings).",
        ),
        ([(HIGH, Blame.NETWORK, "client", "client c")], "Look first at the network to client c."),
        ([(HIGH, Blame.CLIENT, "file", "/export/a")], "Look first at the client."),
    ],
)  # fmt: skip
def test_where_to_look_first(findings: list[tuple[Severity, Blame, str, str]], sentence: str) -> None:
    outcome = Outcome(tuple(found(*f) for f in findings), ())
    assert verdict.paragraph(outcome, covered()).endswith(sentence)
