"""Slots in use, DELAY, delegations, failures by status."""

from __future__ import annotations

import pytest

from analyzer.analysis.delays import DelayRow
from analyzer.analysis.delegations import RecallRow
from analyzer.analysis.failures import FailureRow
from analyzer.analysis.sessions import SessionRow
from analyzer.core.finding import Confidence, Severity
from tests.unit.analysis.helpers import findings, rows, s

FULL = """
0 A session - op=CREATE_SESSION session=x max_slots=3
1.0..2.0 A session - session=x slot=0
1.1..2.5 A session - session=x slot=1
1.2..3.0 A session - session=x slot=2
2.0005..4.0 A session - session=x slot=0
2.6..2.7 A session - session=x slot=1
"""


@pytest.mark.parametrize("batch_rows", [None, 1, 2])
def test_time_with_all_slots_in_use(batch_rows: int | None) -> None:
    (row,) = rows(SessionRow, FULL, batch_rows)
    assert (row.slots, row.slots_used, row.requests) == (3, 3, 5)
    # full: 1.2 to 2.0, 2.0005 to 2.5, 2.6 to 2.7; only the second follows within 1 ms
    assert (row.full_ns, row.full_periods, row.refills) == (s(0.8) + s(0.4995) + s(0.1), 3, 1)
    assert (row.longest_start_ns, row.longest_end_ns) == (s(1.2), s(2.0))
    (found,) = findings("slot-exhaustion", FULL, batch_rows)
    assert found.facts["full_ns"] == s(1.3995) and found.facts["slots"] == 3


def test_the_server_target_limits_the_slots() -> None:
    text = """
    0 A session - op=CREATE_SESSION session=x max_slots=64
    1.0..4.0 A session - session=x slot=0 target_slot=1
    1.0..4.0 A session - session=x slot=1 target_slot=1
    """
    (row,) = rows(SessionRow, text)
    assert (row.slots, row.full_ns) == (2, s(3))


def test_slots_that_were_never_used_are_free() -> None:
    (row,) = rows(SessionRow, FULL.replace("max_slots=3", "max_slots=4"))
    assert (row.full_ns, row.slots_used) == (0, 3)


def test_a_request_that_is_answered_late_counts_when_it_is_known() -> None:
    # slot 1 is in use for a long time while slot 0 is used again and again: batches of one operation
    lines = [
        "0 A session - op=CREATE_SESSION session=x max_slots=2",
        "0.5..0.6 A session - session=x slot=1",
    ]
    lines += [f"{t}.0..{t}.5 A session - session=x slot=0" for t in range(1, 21)]
    lines += ["1.0..30.0 A session - session=x slot=1"]
    for batch_rows in (None, 1, 4):
        (row,) = rows(SessionRow, "\n".join(lines), batch_rows)
        assert row.full_ns == 20 * s(0.5) and row.full_periods == 20


def test_delay_episode_ends_with_the_success() -> None:
    text = """
    1.0..1.1 A open f -> DELAY
    1.2..1.3 A open f -> DELAY
    1.5..1.6 B open f
    2.0..2.2 A open f
    """
    for batch_rows in (None, 1):
        (row,) = rows(DelayRow, text, batch_rows)
        assert (row.client, row.count, row.first_ns, row.last_ns, row.through_ns) == (
            *("A", 2, s(1), s(1.3)),
            s(2.2),
        )


def test_an_open_by_name_is_matched_by_its_path() -> None:
    text = "1 A open - object=dir path=/d/f -> DELAY\n2 A open - object=handle path=/d/f"
    (row,) = rows(DelayRow, text)
    assert row.through_ns == s(2)


def test_delay_loop_total_time() -> None:
    starts = (0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3)
    lines = [f"{at} A open f -> DELAY" for at in starts] + ["12.7 A open f"]
    (found,) = findings("delay-loop", "\n".join(lines))
    assert found.facts["count"] == 7 and found.facts["lasted_ns"] == s(12.7)
    assert found.severity is Severity.MEDIUM and found.confidence is Confidence.HIGH
    (never,) = findings("delay-loop", "\n".join([*lines[:-1], "40 A open f -> DELAY"]))
    assert never.severity is Severity.HIGH and never.confidence is Confidence.MEDIUM


RECALL = """
1 A open f delegation=write delegation_stateid=d1
2.0..2.01 B open f -> DELAY
2.0..2.05 A recall f stateid=d1
2.2 B open f -> DELAY
3.0..4.5 A delegation f stateid=d1
5 B open f
"""


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_recall_latency_and_whom_it_delayed(batch_rows: int | None) -> None:
    (row,) = rows(RecallRow, RECALL, batch_rows)
    assert (row.client, row.delegation, row.granted_ns) == ("A", "write", s(1))
    assert (row.recalled_ns, row.answered_ns, row.returned_ns) == (s(2), s(2.05), s(4.5))
    (found,) = findings("delegation-recall-slow", RECALL, batch_rows)
    assert found.facts["took_ns"] == s(2.5) and found.severity is Severity.MEDIUM
    assert found.facts["delayed"] == 2 and found.facts["delayed_ns"] == s(3)


def test_a_recall_sent_again_on_a_new_connection_is_one_recall() -> None:
    text = """
    1 A open f delegation=write delegation_stateid=d1
    2.. A recall f stateid=d1 xid=77
    42.0..42.1 A recall f stateid=d1 xid=77 connection=A:901>server:2049
    42.3 A delegation f stateid=d1
    """
    (row,) = rows(RecallRow, text)
    assert (row.sent, row.recalled_ns, row.returned_ns) == (2, s(2), s(42.3))
    (found,) = findings("delegation-recall-slow", text)
    assert found.facts["took_ns"] == s(40.3) and found.severity is Severity.HIGH


def test_a_missing_return_is_high_but_less_sure() -> None:
    text = "1 A open f delegation=read delegation_stateid=d1\n2.. A recall f stateid=d1\n12 B getattr f"
    (found,) = findings("delegation-recall-slow", text)
    assert found.severity is Severity.HIGH and found.confidence is Confidence.MEDIUM
    assert found.facts["returned"] == "no" and "never answered" in found.title
    assert findings("delegation-recall-slow", text.replace("12 B", "2.1 B")) == []


def test_failures_are_counted_with_a_few_references() -> None:
    lines = [f"{at} A write f 0+10 -> BAD_STATEID" for at in range(1, 21)] + [
        "30 B read f 0+1 -> BAD_STATEID"
    ]
    for batch_rows in (None, 7):
        found = rows(FailureRow, "\n".join(lines), batch_rows)
        assert [(r.client, r.op, r.count, r.first_ns, r.last_ns, len(r.evidence)) for r in found] == [
            ("A", "WRITE", 20, s(1), s(20), 8),
            ("B", "READ", 1, s(30), s(30), 1),
        ]
    (hit,) = findings("stale-state", "\n".join(lines))
    assert hit.facts["count"] == 21 and hit.facts["clients"] == 2 and hit.severity is Severity.MEDIUM


def test_failures_inside_a_result() -> None:
    (row,) = rows(FailureRow, "1 A stateid - results=ok,BAD_STATEID,BAD_STATEID")
    assert (row.status, row.count, row.in_result) == ("BAD_STATEID", 2, True)
    (hit,) = findings("stale-state", "1 A stateid - results=ok,BAD_STATEID")
    assert hit.severity is Severity.INFO


def test_isolated_stale_state_is_low_and_many_clients_are_one_finding() -> None:
    (one,) = findings("stale-state", "1 A read f 0+1 -> OLD_STATEID")
    assert one.severity is Severity.LOW
    (many,) = findings(
        "stale-state", "\n".join(f"{n} c{n} read f 0+1 -> STALE_STATEID" for n in range(1, 30))
    )
    assert many.facts["clients"] == 29 and many.severity is Severity.LOW


def test_open_confirm_by_minor_version() -> None:
    text = "1 A open f op=OPEN_CONFIRM protocol={}"
    assert len(findings("forbidden-operation", text.format("nfs4.1"))) == 1
    assert len(findings("forbidden-operation", text.format("nfs4.2"))) == 1
    assert findings("forbidden-operation", text.format("nfs4.0")) == []


def test_callbacks_that_clients_refuse_are_told_apart() -> None:
    text = "1 A recall f stateid=d1 -> DELAY\n2 A open f"
    (found,) = findings("other-failures", text)
    assert "callback" in found.title
    assert findings("delay-loop", text) == []


def test_everyday_failures_are_not_reported() -> None:
    text = "1 A lookup f -> NOENT\n2 A access f -> ACCESS\n3 A remove f -> NOENT\n4 A create f -> EXIST"
    assert findings("other-failures", text) == []
    (found,) = findings("other-failures", "\n".join(f"{n} A open f -> INVAL" for n in range(1, 101)))
    assert found.severity is Severity.LOW and found.facts["count"] == 100


@pytest.mark.parametrize(
    ("rule", "status", "count", "severity"),
    [
        ("bad-slot", "BADSLOT", 1, Severity.LOW),
        ("bad-slot", "BAD_HIGH_SLOT", 2, Severity.MEDIUM),
        ("sequence-misordered", "SEQ_MISORDERED", 2, Severity.LOW),
        ("sequence-misordered", "SEQ_MISORDERED", 3, Severity.MEDIUM),
        ("sequence-misordered", "SEQ_FALSE_RETRY", 1, Severity.MEDIUM),
        ("reclaim-refused", "NO_GRACE", 1, Severity.HIGH),
        ("malformed-compound", "SEQUENCE_POS", 4, Severity.MEDIUM),
    ],
)
def test_severity_by_status_and_count(rule: str, status: str, count: int, severity: Severity) -> None:
    (found,) = findings(rule, "\n".join(f"{n} A session - -> {status}" for n in range(1, count + 1)))
    assert (found.severity, found.facts["count"]) == (severity, count)
