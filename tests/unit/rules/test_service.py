"""What the rules on durability and service conclude, with the numbers."""

from __future__ import annotations

import pytest

import analyzer.analysis
import analyzer.rules
from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Confidence, Finding, Severity
from analyzer.core.notation import parse_events
from analyzer.core.rule import Fold, Rule, discover, folds_for, judge, run_folds
from analyzer.core.table import Tables

RULES = {rule.id: rule for rule in discover(analyzer.rules, "RULE", Rule)}
FOLDS = discover(analyzer.analysis, "FOLD", Fold)
NS = 1_000_000_000


def findings(rule_id: str, text: str, coverage: Coverage | None = None) -> tuple[Finding, ...]:
    rule, tables = RULES[rule_id], Tables()
    kinds = run_folds([parse_events(text)], folds_for([rule], FOLDS), tables)
    return judge([rule], tables, coverage or Coverage(), kinds).findings


LOST = "1.0..1.1 A write f 0+65536 unstable value=aa\n5.0..5.1 A commit f 0+0 value=bb\n"
AGAIN = "5.2..5.3 A write f 0+65536 unstable value=bb\n5.4..5.5 A commit f 0+0 value=bb\n"


@pytest.mark.parametrize(
    ("text", "last_s", "severity", "confidence", "words"),
    [
        (LOST, 60, Severity.CRITICAL, Confidence.HIGH, "none of it again in the 55.00 s"),
        (LOST, 9, Severity.HIGH, Confidence.MEDIUM, "none of it again in the 4.00 s"),
        (LOST + AGAIN, 60, Severity.LOW, Confidence.HIGH, "sent all of it again"),
    ],
)
def test_a_changed_verifier(
    text: str, last_s: int, severity: Severity, confidence: Confidence, words: str
) -> None:
    (finding,) = findings("write-verifier-changed", text, Coverage(last_ns=last_s * NS))
    assert (finding.severity, finding.confidence) == (severity, confidence)
    assert finding.title.startswith("64 KiB that client A wrote UNSTABLE to /f")
    assert "verifier aa" in finding.title and "verifier bb" in finding.title and words in finding.title
    assert finding.facts["unstable_bytes"] == 65_536


def test_files_of_one_client_are_one_finding() -> None:
    text = LOST + LOST.replace(" f ", " g ").replace("65536", "131072")
    (finding,) = findings("write-verifier-changed", text, Coverage(last_ns=60 * NS))
    assert (finding.facts["files"], finding.facts["unstable_bytes"]) == (2, 196_608)
    assert "/g and 1 other file" in finding.title


@pytest.mark.parametrize(
    ("length", "last_s", "severity"),
    [(2 << 20, 60, Severity.MEDIUM), (4096, 60, Severity.LOW), (2 << 20, 5, Severity.LOW)],
)
def test_closed_without_commit(length: int, last_s: int, severity: Severity) -> None:
    text = f"1.0..1.1 A write f 0+{length} unstable value=aa\n1.2..1.3 A close f"
    (finding,) = findings("unstable-never-committed", text, Coverage(last_ns=last_s * NS))
    assert finding.severity is severity


def test_an_open_file_at_the_end_of_a_short_capture_is_no_finding() -> None:
    text = "1.0..1.1 A write f 0+4096 unstable value=aa"
    assert findings("unstable-never-committed", text, Coverage(last_ns=30 * NS)) == ()


def storm(victim_ms: int) -> str:
    lines = []
    for i in range(160):
        start = 10 + i / 200
        lines.append(f"{start:.4f}..{start + 0.02:.4f} {'AB'[i % 2]} write f{i % 8} 0+4096 file_sync")
    for i in range(30):
        lines.append(f"{5 + i / 100:.3f}..{5.001 + i / 100:.3f} C read g")
        lines.append(f"{10.1 + i / 100:.3f}..{10.1 + i / 100 + victim_ms / 1000:.3f} C read g")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("victim_ms", "severity"), [(1, Severity.LOW), (6, Severity.MEDIUM), (40, Severity.HIGH)]
)
def test_a_sync_storm_is_as_bad_as_what_it_does_to_others(victim_ms: int, severity: Severity) -> None:
    (finding,) = findings("sync-storm", storm(victim_ms))
    assert finding.severity is severity
    assert (finding.facts["stable_writes"], finding.facts["clients"], finding.facts["files"]) == (160, 2, 8)
    assert finding.facts["peak_outstanding"] == 4
    if victim_ms > 1:
        assert finding.facts["victim_factor"] == victim_ms
        assert f"READ took {victim_ms}.0 ms" in finding.title


def test_two_clients_that_write_in_turn_under_a_lock_make_no_storm() -> None:
    lines = []
    for i in range(400):
        start, who = 10 + i / 400, "AB"[i % 2]
        lines.append(f"{start:.5f}..{start + 0.0003:.5f} {who} lock f 0+10 write")
        lines.append(f"{start + 0.0005:.5f}..{start + 0.0008:.5f} {who} write f 0+1 file_sync")
        lines.append(f"{start + 0.001:.5f}..{start + 0.0013:.5f} {who} unlock f 0+10")
    text = "\n".join(lines)
    assert [f for rule_id in RULES for f in findings(rule_id, text) if f.severity > Severity.LOW] == []
    assert findings("sync-storm", text) == ()


@pytest.mark.parametrize(
    ("later", "severity", "words"),
    [
        ("9.0..9.1 A read g", Severity.LOW, "answered later calls of this client"),
        ("9.0..9.1 B read g", Severity.HIGH, "while server server:2049 answered other clients"),
        ("9.0.. B read g", Severity.HIGH, "answered nobody any more"),
    ],
)
def test_a_call_without_reply(later: str, severity: Severity, words: str) -> None:
    text = f"1.0..1.1 A read f\n2.0.. A write f 0+1 unstable\n{later}"
    (finding,) = findings("unanswered-call", text)
    assert finding.severity is severity
    assert words in finding.title
    assert finding.facts["waited_ns"] in (7 * NS, 71 * NS // 10)


def test_lost_segments_may_be_the_message_that_is_missing() -> None:
    text = "2.0.. A write f 0+1 unstable\n9.0..9.1 B read g"
    lossy = Coverage(notes=(Note("lost", Loss.GAP, 3),), last_ns=60 * NS)
    for rule_id, severity, lines in (
        ("unanswered-call", Severity.LOW, text),
        ("write-verifier-changed", Severity.MEDIUM, LOST),
        ("unstable-never-committed", Severity.LOW, LOST.replace("commit f 0+0", "close f")),
    ):
        (sure,), (doubtful,) = (
            findings(rule_id, lines, Coverage(last_ns=60 * NS)),
            findings(rule_id, lines, lossy),
        )
        assert sure.confidence is Confidence.HIGH
        assert (doubtful.severity, doubtful.confidence) == (severity, Confidence.LOW)
    assert findings("unanswered-call", text, Coverage(severe=True, blind=True)) == ()


def test_resent_calls_are_set_against_tcp_retransmissions() -> None:
    text = "1.0..3.0 A write f 0+1 unstable attempts=2\n4.0..4.1 A read f"
    (finding,) = findings("rpc-retransmission", text, Coverage(seen={"tcp retransmissions": 17}))
    assert finding.severity is Severity.LOW
    assert "17 TCP retransmissions" in finding.title and "2.00 s after" in finding.title
    assert finding.facts["tcp_retransmissions"] == 17


def test_a_long_stall_with_several_waiting_is_worse_than_one_slow_call() -> None:
    many = "1.0..1.1 A read f\n1.2..4.0 A read f\n1.2..4.1 B read g"
    (finding,) = findings("server-stall", many)
    assert (finding.severity, finding.facts["stall_ns"]) == (Severity.MEDIUM, 2_800_000_000)
    (finding,) = findings("server-stall", "1.0..1.1 A read f\n1.2..4.0 A commit f")
    assert (finding.severity, finding.facts["outstanding"]) == (Severity.LOW, 1)
    (finding,) = findings("server-stall", many.replace("4.0", "14.0").replace("4.1", "14.1"))
    assert finding.severity is Severity.HIGH


def test_the_slow_tail_names_the_client() -> None:
    lines = [f"{i}.0..{i}.001 A read f" for i in range(900)]
    lines += [f"{i}.5..{i}.9 B read f" for i in range(20)]
    (finding,) = findings("latency-tail", "\n".join(lines))
    assert (finding.facts["calls"], finding.facts["worst_client"]) == (920, "B")
    assert finding.facts["p99_ns"] == pytest.approx(400_000_000, rel=0.03)
