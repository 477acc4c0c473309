"""Server, session and client state on captures whose truth is known (see captures/README.md)."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from analyzer.core.finding import Finding, Severity
from analyzer.core.rule import folds_for, judge, run_folds
from analyzer.core.table import Tables
from analyzer.wire.capture import Capture, CaptureOptions
from tests.unit.analysis.helpers import FOLDS, RULES, s

CAPTURES = Path(__file__).parents[2] / "captures"
GANESHA = "nfs41-ganesha-locks-restart-port20490.pcap"
KERNEL = "nfs41-two-kernel-clients.pcapng"
PYNFS = "nfs40-pynfs-locks.pcap"

STATE = (
    *("bad-slot", "callback-path-down", "client-identity-shared", "delay-loop", "delegation-recall-slow"),
    *("delegation-revoked", "forbidden-operation", "grace-period", "lease-expired", "lease-gap"),
    *(
        "malformed-compound",
        "other-failures",
        "reclaim-complete-missing",
        "reclaim-refused",
        "recovery-loop",
    ),
    *("sequence-flags", "sequence-misordered", "server-restart", "session-lost", "slot-exhaustion"),
    "stale-state",
)

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")


@functools.cache
def found(name: str) -> dict[str, list[Finding]]:
    """What the rules on state find in a capture, by rule."""
    rules = [RULES[rule_id] for rule_id in STATE]
    with tempfile.TemporaryDirectory() as scratch:
        capture = Capture((str(CAPTURES / name),), Path(scratch), CaptureOptions(), lambda *_: None)
        tables = Tables()
        kinds = run_folds(capture.batches(), folds_for(rules, list(FOLDS.values())), tables)
        outcome = judge(rules, tables, capture.coverage, kinds)
    result: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        result.setdefault(finding.rule, []).append(finding)
    return result


def frames(finding: Finding) -> set[int]:
    return {int(reference.rsplit("#", 1)[1]) for reference in finding.evidence}


def test_restart_from_the_verifier_with_its_unstable_writes() -> None:
    (restart,) = found(GANESHA)["server-restart"]
    assert (restart.facts["old_verifier"], restart.facts["new_verifier"]) == (
        "0x8a290e6b00000000",
        "0x96290e6b00000000",
    )
    assert (restart.facts["old_instance"], restart.facts["new_instance"]) == ("0x6b0e298a", "0x6b0e2996")
    assert restart.facts["uncommitted_writes"] == 20 and restart.facts["uncommitted_files"] == 1
    assert 445 in frames(restart)  # the COMMIT that returned the new verifier
    assert restart.facts["window_ns"] == pytest.approx(s(3.61), abs=s(0.01))


def test_grace_window_and_who_was_refused() -> None:
    (grace,) = found(GANESHA)["grace-period"]
    assert (grace.facts["refused"], grace.facts["clients"]) == (13, 1)
    assert grace.facts["window_ns"] == pytest.approx(s(11.03), abs=s(0.01))
    assert grace.facts["longest_wait_ns"] == pytest.approx(s(12.03), abs=s(0.01))
    assert "51896" in grace.title


def test_each_provoked_status_is_found_at_its_frame() -> None:
    ganesha = found(GANESHA)
    assert frames(ganesha["bad-slot"][0]) == {409}
    assert frames(ganesha["sequence-misordered"][0]) == {411}
    assert frames(ganesha["malformed-compound"][0]) == {415}
    assert frames(ganesha["forbidden-operation"][0]) == {416}
    assert frames(ganesha["reclaim-refused"][0]) == {458, 508}
    (stale,) = ganesha["stale-state"]
    assert frames(stale) == {84, 86, 506} and stale.severity is Severity.LOW


def test_session_lost_in_the_restart_and_a_session_that_never_was() -> None:
    lost, strange = found(GANESHA)["session-lost"]
    assert {434, 437, 439, 445} <= frames(lost) and lost.facts["reclaims"] == 2
    assert frames(strange) == {413} and strange.severity is Severity.LOW


def test_nothing_that_the_truth_does_not_hold() -> None:
    assert set(found(GANESHA)) == {
        *("bad-slot", "forbidden-operation", "grace-period", "malformed-compound", "other-failures"),
        *("reclaim-refused", "sequence-misordered", "server-restart", "session-lost", "stale-state"),
    }


def test_two_healthy_kernel_clients_give_nothing_above_low() -> None:
    hits = [finding for group in found(KERNEL).values() for finding in group]
    assert {finding.rule for finding in hits} == {"stale-state"}
    assert {finding.severity for finding in hits} == {Severity.INFO}


def test_a_suite_of_many_clients_gives_one_finding_per_kind() -> None:
    pynfs = found(PYNFS)
    assert "forbidden-operation" not in pynfs and "client-identity-shared" not in pynfs
    assert {rule: len(group) for rule, group in pynfs.items() if rule != "other-failures"} == {
        "lease-expired": 1,
        "lease-gap": 1,
        "reclaim-refused": 1,
        "stale-state": 5,
    }
    (gap,) = pynfs["lease-gap"]
    assert gap.facts["lease_s"] == 20 and gap.facts["silent_ns"] == pytest.approx(s(40), abs=s(0.1))


@pytest.mark.parametrize("name", [GANESHA, KERNEL, PYNFS])
def test_state_does_not_depend_on_where_batches_end(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        capture = Capture((str(CAPTURES / name),), Path(scratch), CaptureOptions(), lambda *_: None)
        table = pa.Table.from_batches(list(capture.batches())).unify_dictionaries().combine_chunks()
    (batch,) = table.to_batches()
    folds = folds_for([RULES[rule_id] for rule_id in STATE], list(FOLDS.values()))

    def derived(size: int) -> dict[str, list[str]]:
        tables = Tables()
        run_folds([batch.slice(at, size) for at in range(0, batch.num_rows, size)], folds, tables)
        return {t.__name__: sorted(map(repr, tables.of(t))) for fold in folds for t in fold.produces}

    assert derived(97) == derived(batch.num_rows)
