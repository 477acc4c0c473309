"""Findings: identity over runs, names of levels, what counts as a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Blame, Confidence, Finding, Severity, Subject

FINDING = Finding(
    rule="lock-long-wait",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    subject=Subject("file", "0xabc", "/export/data.db"),
    title="client B waited 7.01 s",
    evidence=("a.pcap#12", "a.pcap#90"),
    when=(1, 2),
    explanation="",
    remedy="Notify.",
    docs="docs/rules/lock-long-wait.md",
    facts={"wait_ns": 7},
    blame=Blame.APPLICATION,
)


def test_the_fingerprint_is_the_one_of_earlier_versions() -> None:
    # a change of this value makes every known finding new again for people who compare runs
    assert FINDING.fingerprint == "ecc39bde5795c807"


def test_the_fingerprint_depends_on_what_the_finding_is_about_alone() -> None:
    same = [
        replace(FINDING, title="reworded", severity=Severity.LOW, confidence=Confidence.LOW, facts={}),
        replace(FINDING, subject=Subject("file", "0xabc", "another label")),
        replace(FINDING, evidence=FINDING.evidence[:1], when=None, remedy="", explanation="more"),
    ]
    other = [
        replace(FINDING, rule="lock-contended-file"),
        replace(FINDING, subject=Subject("client", "0xabc")),
        replace(FINDING, subject=Subject("file", "0xabd")),
        replace(FINDING, evidence=("a.pcap#13",)),
        replace(FINDING, evidence=()),
    ]
    assert {f.fingerprint for f in same} == {FINDING.fingerprint}
    assert len({f.fingerprint for f in [FINDING, *other]}) == 1 + len(other)


def test_levels_are_ordered_and_named() -> None:
    assert Severity.parse("High") is Severity.HIGH
    assert str(Severity.HIGH) == "high"
    assert Severity.CRITICAL > Severity.INFO
    with pytest.raises(KeyError):
        Severity.parse("dreadful")


def test_a_subject_is_called_by_its_label() -> None:
    assert str(FINDING.subject) == "/export/data.db"
    assert str(Subject("file", "0xabc")) == "0xabc"


@pytest.mark.parametrize("loss", list(Loss))
def test_what_degrades_an_input(loss: Loss) -> None:
    degraded = Coverage(notes=(Note("n", loss),)).degraded
    assert degraded is (loss not in (Loss.MID_END, Loss.FILTERED))


def test_plain_facts_degrade_nothing() -> None:
    assert not Coverage(notes=(Note("SMB was seen and is not judged"),)).degraded
    assert Coverage(severe=True).degraded
