"""Restarts, grace, RECLAIM_COMPLETE, recovery."""

from __future__ import annotations

import pytest

from analyzer.analysis.grace import ClientStartRow, GraceRow
from analyzer.analysis.recovery import RecoveryRow, phases
from analyzer.analysis.server import RestartRow, ServerRow
from analyzer.core.finding import Confidence, Severity
from tests.unit.analysis.helpers import findings, rows, s

RESTART = """
0.1 A session - op=EXCHANGE_ID clientid=0x6b0e298a00000001 identity=A value=boot1
0.2 A session - op=CREATE_SESSION clientid=0x6b0e298a00000001 session=a1
0.3 B session - op=EXCHANGE_ID clientid=0x6b0e298a00000002 identity=B value=boot2
0.4 B session - op=CREATE_SESSION clientid=0x6b0e298a00000002 session=b1
0.5 A session - op=RECLAIM_COMPLETE clientid=0x6b0e298a00000001 session=a1
0.6 B session - op=RECLAIM_COMPLETE clientid=0x6b0e298a00000002 session=b1
1.0..1.1 A write f 0+1000 unstable value=v1 session=a1 clientid=0x6b0e298a00000001
1.2 A commit f value=v1 session=a1 clientid=0x6b0e298a00000001
2.0..2.1 A write f 1000+1000 unstable value=v1 session=a1 clientid=0x6b0e298a00000001
2.1..2.2 A write f 2000+500 unstable value=v1 session=a1 clientid=0x6b0e298a00000001
2.3 B write g 0+10 file_sync value=v1 session=b1 clientid=0x6b0e298a00000002
10.0..10.1 A session - session=a1 clientid=0x6b0e298a00000001 -> BADSESSION
10.2 A session - op=EXCHANGE_ID clientid=0x6b0e299600000001 identity=A value=boot1
10.3 A session - op=CREATE_SESSION clientid=0x6b0e299600000001 session=a2
10.4..10.5 A open f claim=previous reclaim session=a2 clientid=0x6b0e299600000001
10.5..10.7 A lock f 0+10 write reclaim session=a2 clientid=0x6b0e299600000001
10.8 A session - op=RECLAIM_COMPLETE session=a2 clientid=0x6b0e299600000001
11.0..11.5 A open g session=a2 clientid=0x6b0e299600000001 -> GRACE
12.0..12.5 A open g session=a2 clientid=0x6b0e299600000001 -> GRACE
13.0..13.2 A commit f value=v2 session=a2 clientid=0x6b0e299600000001
16.0..16.1 A open g session=a2 clientid=0x6b0e299600000001
"""


@pytest.mark.parametrize("batch_rows", [None, 1, 4])
def test_restart_from_verifier_and_client_ids(batch_rows: int | None) -> None:
    (row,) = rows(RestartRow, RESTART, batch_rows)
    assert (row.not_before_ns, row.not_after_ns) == (s(2.3), s(10.2))
    assert (row.old_verifier, row.new_verifier) == ("v1", "v2")
    assert (row.old_instance, row.new_instance) == ("0x6b0e298a", "0x6b0e2996")
    assert row.signs == ("verifier", "clientid", "session loss", "grace")
    assert (row.uncommitted_writes, row.uncommitted_bytes, row.uncommitted_files) == (2, 1500, 1)
    assert row.uncommitted_clients == ("A",) and not row.session_survived


def test_restart_is_one_sentence_with_its_numbers() -> None:
    (found,) = findings("server-restart", RESTART)
    assert found.severity is Severity.HIGH
    assert found.facts["uncommitted_writes"] == 2 and found.facts["window_ns"] == s(7.9)
    assert "v1 became v2" in found.title and "2 UNSTABLE WRITEs" in found.title


def test_a_verifier_change_with_a_surviving_session_is_no_restart() -> None:
    text = """
    1 A write f 0+10 unstable value=v1 session=a clientid=0x6b0e298a00000001
    3 A commit f value=v2 session=a clientid=0x6b0e298a00000001
    4 A read f 0+10 session=a clientid=0x6b0e298a00000001
    """
    (row,) = rows(RestartRow, text)
    assert row.session_survived
    (found,) = findings("server-restart", text)
    assert "without losing sessions" in found.title and found.facts["uncommitted_writes"] == 1


def test_overlapping_replies_are_no_proof_of_order() -> None:
    # the old verifier answers a call that began after the new one had been seen
    text = """
    1..2 A write f 0+10 unstable value=v1
    2..3 A write f 10+10 unstable value=v2
    3.5..4 A write f 20+10 unstable value=v1
    """
    assert rows(RestartRow, text) == []


def test_two_restarts() -> None:
    text = "1 A write f 0+10 unstable value=v1\n2 A commit f value=v2\n3 A commit f value=v3"
    assert [(r.old_verifier, r.new_verifier) for r in rows(RestartRow, text)] == [
        ("v1", "v2"),
        ("v2", "v3"),
    ]


def test_servers_are_kept_apart_and_the_lease_is_read() -> None:
    text = """
    1 A write f 0+10 unstable value=v1 endpoint=one:2049
    2 A commit f value=v2 endpoint=two:2049
    3 A getattr f lease_seconds=10 endpoint=two:2049
    """
    assert rows(RestartRow, text) == []
    assert {(r.endpoint, r.lease_seconds, r.operations) for r in rows(ServerRow, text)} == {
        ("one:2049", None, 1),
        ("two:2049", 10, 2),
    }


@pytest.mark.parametrize("batch_rows", [None, 1, 3])
def test_grace_who_was_refused_and_for_how_long(batch_rows: int | None) -> None:
    (row,) = rows(GraceRow, RESTART, batch_rows)
    assert (row.client, row.refused) == ("A", 2)
    assert (row.first_ns, row.last_ns, row.through_ns) == (s(11), s(12.5), s(16.1))
    (found,) = findings("grace-period", RESTART, batch_rows)
    assert found.facts["window_ns"] == s(1.5) and found.facts["longest_wait_ns"] == s(5.1)
    assert found.facts["refused"] == 2 and found.severity is Severity.LOW


def test_grace_severity_follows_duration_and_lease() -> None:
    text = "1 A open f -> GRACE\n{} A open f -> GRACE\n{} A open f"
    (medium,) = findings("grace-period", text.format(12, 13))
    (high,) = findings("grace-period", text.format(50, 100))
    (lease,) = findings("grace-period", "0.5 A getattr f lease_seconds=4\n" + text.format(9, 9.5))
    assert [f.severity for f in (medium, high, lease)] == [Severity.MEDIUM, Severity.HIGH, Severity.HIGH]


def test_refusals_a_long_time_apart_are_two_grace_periods() -> None:
    text = "1 A open f -> GRACE\n2 A open f\n100 B open f -> GRACE\n101 B open f"
    assert len(findings("grace-period", text)) == 2


def test_grace_that_outlasts_the_input_lowers_confidence() -> None:
    (found,) = findings("grace-period", "1 A open f -> GRACE\n9 A open f -> GRACE")
    assert found.confidence is Confidence.MEDIUM and "hadn't got through" in found.title


@pytest.mark.parametrize("batch_rows", [None, 1, 3])
def test_reclaim_complete_per_client(batch_rows: int | None) -> None:
    found = {(r.client, r.clientid): r for r in rows(ClientStartRow, RESTART, batch_rows)}
    again = found["A", "0x6b0e299600000001"]
    assert (again.created_ns, again.complete_ns, again.first_open_ns) == (s(10.3), s(10.8), s(11.5))
    assert found["B", "0x6b0e298a00000002"].first_open_ns is None
    assert findings("reclaim-complete-missing", RESTART, batch_rows) == []


def test_reclaim_complete_missing_counts_refusals() -> None:
    text = """
    1 A session - op=CREATE_SESSION
    2 A open f -> GRACE
    3 A open f -> GRACE
    9 A session -
    """
    (found,) = findings("reclaim-complete-missing", text)
    assert found.severity is Severity.HIGH and found.facts["refused"] == 2
    assert found.facts["watched_ns"] == s(7) and found.confidence is Confidence.HIGH
    (early,) = findings("reclaim-complete-missing", "1 A session - op=CREATE_SESSION\n2 A open f")
    assert early.confidence is Confidence.MEDIUM and early.severity is Severity.MEDIUM


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_reclaim_complete_missing_although_the_client_unmounts_at_once(batch_rows: int | None) -> None:
    text = "1 A session - op=CREATE_SESSION\n2 A open f\n3 A session - op=DESTROY_CLIENTID"
    assert len(findings("reclaim-complete-missing", text, batch_rows)) == 1


def test_reclaim_complete_for_one_file_system_is_not_enough() -> None:
    text = "1 A session - op=CREATE_SESSION\n2 A session - op=RECLAIM_COMPLETE one_fs=true\n3 A open f"
    assert len(findings("reclaim-complete-missing", text)) == 1


@pytest.mark.parametrize("batch_rows", [None, 1, 3])
def test_recovery_in_phases(batch_rows: int | None) -> None:
    (row,) = rows(RecoveryRow, RESTART, batch_rows)
    assert (row.client, row.session, row.status, row.losses, row.known) == (
        "A",
        "a1",
        "BADSESSION",
        1,
        True,
    )
    assert (row.detected_ns, row.exchange_ns, row.created_ns) == (s(10.1), s(10.2), s(10.3))
    assert (row.reclaims, row.reclaims_refused, row.client_restarted) == (2, 0, False)
    assert phases(row) == [
        ("client id", s(0.1)),
        ("session", s(0.1)),
        ("wait before reclaim", s(0.1)),
        ("reclaim", s(0.3)),
        ("RECLAIM_COMPLETE", s(0.1)),
        ("first ordinary operation", s(2.4)),
    ]
    (found,) = findings("session-lost", RESTART, batch_rows)
    assert found.facts["lasted_ns"] == s(3.1) and found.severity is Severity.MEDIUM
    assert found.facts["reclaim_ns"] == s(0.3)


def test_a_first_mount_is_no_recovery() -> None:
    # a Linux client sends EXCHANGE_ID twice when it mounts, and gets two client ids
    text = """
    1 A session - op=EXCHANGE_ID clientid=0x01 value=boot
    2 A session - op=EXCHANGE_ID clientid=0x02 value=boot
    3 A session - op=CREATE_SESSION clientid=0x02 session=a
    4 A open f session=a clientid=0x02
    """
    assert rows(RecoveryRow, text) == []


def test_recovery_without_end_is_high() -> None:
    text = """
    1 A read f 0+1 session=a
    2 A session - session=a -> BADSESSION
    3 A session - session=a -> BADSESSION
    """
    (found,) = findings("session-lost", text)
    assert found.severity is Severity.HIGH and found.facts["losses"] == 2
    assert found.confidence is Confidence.MEDIUM


def test_two_losses_in_a_row_are_two_recoveries() -> None:
    text = """
    1 A read f 0+1 session=a
    2 A session - session=a -> BADSESSION
    3 A session - op=CREATE_SESSION session=b
    4 A read f 0+1 session=b
    5 A session - session=b -> BADSESSION
    6 A session - op=CREATE_SESSION session=c
    7 A read f 0+1 session=c
    """
    for batch_rows in (None, 1, 2):
        found = rows(RecoveryRow, text, batch_rows)
        assert [(r.session, r.created_ns, r.normal_ns) for r in found] == [
            ("a", s(3), s(4)),
            ("b", s(6), s(7)),
        ]


def test_many_clients_give_one_finding() -> None:
    lines = []
    for n in range(8):
        lines += [f"1 c{n} read f 0+1 session=s{n}", f"2 c{n} session - session=s{n} -> BADSESSION"]
        lines += [
            f"3 c{n} session - op=CREATE_SESSION session=t{n}",
            f"{4 + n} c{n} read f 0+1 session=t{n}",
        ]
    (found,) = findings("session-lost", "\n".join(lines))
    assert found.facts["clients"] == 8 and found.facts["recovered"] == 8
    assert found.facts["lasted_ns"] == s(9)


@pytest.mark.parametrize(("asked", "normal"), [(4.5, 4.6), (3.0, None)])
def test_any_operation_after_reclaim_complete_ends_a_recovery(asked: float, normal: float | None) -> None:
    """A client that only looks is back at work; before RECLAIM_COMPLETE recovery itself looks."""
    text = f"""
    0.0..0.1 A session - op=EXCHANGE_ID clientid=0x1 value=v
    0.2..0.3 A session - op=CREATE_SESSION clientid=0x1 session=a1
    1.0..1.1 A getattr f session=a1
    2.0..2.1 A session - op=SEQUENCE session=a1 -> BADSESSION
    2.2..2.3 A session - op=EXCHANGE_ID clientid=0x2 value=v
    2.4..2.5 A session - op=CREATE_SESSION clientid=0x2 session=a2
    {asked}..{asked + 0.1} A getattr f session=a2
    4.4..4.5 A session - op=RECLAIM_COMPLETE session=a2
    """
    (row,) = rows(RecoveryRow, text)
    assert row.normal_ns == (None if normal is None else s(normal))
