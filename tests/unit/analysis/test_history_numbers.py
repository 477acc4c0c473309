"""Numbers of history tables and findings: who, by how much, and how grave on which mount."""

from __future__ import annotations

import numpy as np
import pytest

from analyzer.analysis.expectation import PROMISES, Level, expectation, weakest
from analyzer.analysis.lock_service import LockServiceRow, bypassed, jain_index
from analyzer.analysis.matrix import MatrixRow, matrix
from analyzer.analysis.mounts import MountRow, family_of
from analyzer.analysis.staleness import CURVE_NS, StalenessRow
from analyzer.analysis.tenancy import TenantRow, bootstrap_ratio
from analyzer.core.finding import Severity, Verdict
from analyzer.core.notation import parse_events
from analyzer.core.rule import run_folds
from analyzer.core.table import Tables
from tests.unit.analysis.helpers import FOLDS, findings, rows, s

NFS = "0 {0} mount / value=nfs4 protocol=nfs4.1 endpoint=server:2049 options={1}"


def lines(*parts: str) -> str:
    return "\n".join(parts)


def judged(text: str, unknown: dict[str, str] | None = None) -> dict[str, MatrixRow]:
    tables = Tables()
    folds = [fold for fold in FOLDS.values() if fold.witness == "client"]
    run_folds([parse_events(text, "client")], folds, tables)
    return {row.promise: row for row in matrix(tables, unknown)}


def test_stale_read_names_reader_writer_and_time() -> None:
    text = "workload register\n0..1 A write f =1\n2..3 B.7 write f =2\n4.5..5 C.9 read f =1"
    (finding,) = findings("read-not-coherent", text)
    assert "C.9 on C read old data in f 1.50 s after B.7 had overwritten it" in finding.title
    assert finding.facts["late_ns"] == s(1.5)
    assert finding.facts["beyond_ns"] == s(1)  # between the first write's end and the second's start
    assert finding.evidence == ("example#1", "example#3", "example#5")


@pytest.mark.parametrize(
    ("options", "severity"), [("rw", Severity.LOW), ("rw,noac", Severity.LOW), (None, Severity.HIGH)]
)
def test_what_a_mount_does_not_promise_is_less_grave(options: str | None, severity: Severity) -> None:
    mount = [NFS.format(node, options) for node in "AB"] if options else []
    text = lines("workload register", *mount, "0..1 A write f =1", "2..3 A write f =2", "4..5 B read f =1")
    (finding,) = findings("read-not-coherent", text)
    assert finding.severity is severity
    assert ("This mount doesn't promise it (nfs4 4.1)" in finding.explanation) == bool(options)
    assert ("noac" in finding.remedy) == bool(options)


def test_nocto_lowers_close_to_open() -> None:
    baton = (
        "0..1 A open f", "1..2 A write f =1 v1 handle={0}", "2..3 A close f handle={0}",
        "4..5 B open f after={1}", "5..6 B read f =0 v0 handle={2}",
    )  # fmt: skip
    for options, severity in (("rw,vers=4.1", Severity.CRITICAL), ("rw,nocto", Severity.LOW)):
        mounts = [NFS.format(node, options) for node in "AB"]
        ids = (2, 4, 5)
        text = lines("workload baton", *mounts, *(line.format(*ids) for line in baton))
        found = {f.facts["kind"]: f for f in findings("close-to-open-broken", text)}
        assert set(found) == {"stale", "stale-by-message"}
        assert {f.severity for f in found.values()} == {severity}
        assert "read version 0 in place of 1" in found["stale-by-message"].title
        assert found["stale-by-message"].facts["beyond_ns"] == 0, "no clock is involved"


def test_append_names_the_losing_and_the_winning_writer() -> None:
    text = lines(
        "workload append",
        *(f"{i}..{i}.5 A.1 append log ={i + 1} v{i} {64 * i}+64" for i in range(5)),
        *(f"{i}.1..{i}.6 B.2 append log ={i + 11} v{i} {64 * i}+64" for i in range(5)),
        *(f"20 C read log ={i + 11} {64 * i}+64 phase=audit" for i in range(5)),
    )
    (finding,) = findings("append-lost", text)
    assert finding.facts["count"] == 5
    assert finding.title == "5 acknowledged records of A.1 on A gone in log, overwritten by B.2 on B"


def test_publish_within_the_cache_bound_is_what_the_mount_does() -> None:
    text = "0..1 A rename p v1\n2..3 A rename p v2\n{0}..{0}.5 B read p v1"
    mounts = [NFS.format(node, "rw,acdirmax=30") for node in "AB"]
    for at, severity, verdict in (
        (20, Severity.LOW, Verdict.UPHELD),
        (50, Severity.HIGH, Verdict.VIOLATED),
    ):
        history = lines("workload publish", *mounts, text.format(at))
        (finding,) = findings("publish-not-atomic", history)
        assert finding.severity is severity
        assert judged(history)["publish"].verdict is verdict


def test_staleness_distribution_and_bound() -> None:
    looks = [
        f"{at / 10}..{at / 10 + 0.01} B read f v{0 if at < 80 else 1} aspect=data" for at in range(20, 100)
    ]
    looks += [
        f"{at / 10}..{at / 10 + 0.01} C read f v{0 if at < 30 else 1} aspect=data" for at in range(20, 100)
    ]
    text = lines("workload staleness", "1..2 A write f v1 aspect=data", *looks)
    b, c = sorted(rows(StalenessRow, text), key=lambda row: row.client)
    assert (b.client, b.looks, b.changes, b.lag_ns_max) == ("B", 80, 1, s(5.9))
    assert (c.client, c.lag_ns_max) == ("C", s(0.9))
    assert b.curve[CURVE_NS.index(s(5))] == 1 and b.curve[CURVE_NS.index(s(10))] == 0
    for options, hits in (("rw", 0), ("rw,acregmax=3", 1), ("rw,noac", 1)):
        mounts = [NFS.format(node, options) for node in "B"]
        found = findings("staleness-beyond-bound", lines(*mounts, text))
        own = [f for f in found if f.subject.name == "B"]
        assert len(own) == hits, options
        if hits:
            assert own[0].facts["lag_ns_max"] == s(5.9)


def test_bypass_counts_agree_with_counting() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        owners = rng.integers(2, 6)
        start, end, owner = [], [], []
        for one in range(owners):
            at = int(rng.integers(0, 5))
            for _ in range(rng.integers(1, 8)):
                wait = int(rng.integers(1, 30))
                start.append(at)
                end.append(at + wait)
                owner.append(one)
                at += wait + int(rng.integers(0, 4)) + 1
        a, b, who = (np.array(x, dtype=np.int64) for x in (start, end, owner))
        order = np.argsort(-(b - a), kind="stable")
        counted = [int(((a > a[i]) & (b < b[i])).sum()) for i in order]
        assert bypassed(a, b, b - a, who).tolist() == counted


def test_polling_signature_and_percentiles() -> None:
    waits = (1.02, 3.05, 7.1, 15.1, 31.2, 61.1, 0.1, 0.2)
    text = lines(
        "workload locks",
        *(
            f"{i * 100}..{i * 100 + wait} {'AB'[i % 2]} lock f 0+10 write blocking"
            for i, wait in enumerate(waits)
        ),
    )
    (row,) = rows(LockServiceRow, text)
    assert (row.grants, row.owners, row.long_waits, row.at_marks) == (8, 2, 6, 6)
    assert row.wait_ns_max == s(61.1) and row.wait_ns_p50 == s(3.05)
    assert row.jain == 1.0
    (finding,) = findings("lock-waiters-polling", lines(NFS.format("A", "rw"), text))
    assert finding.subject.name == "server:2049"
    assert "6 of 6 long waits" in finding.title


def test_jain_index() -> None:
    assert jain_index(np.array([5, 5, 5])) == pytest.approx(1.0)
    assert jain_index(np.array([9, 0, 0])) == pytest.approx(1 / 3)


def test_bootstrap_interval_covers_what_it_should() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for trial in range(300):
        solo, both = rng.normal(200, 20, 8), rng.normal(100, 10, 8)
        low, high = bootstrap_ratio(solo, both, trial)
        inside += low <= 2.0 <= high
        assert low < high
    assert 0.85 < inside / 300 <= 1.0, "about 95 %, a little less for eight rounds"
    assert bootstrap_ratio(np.array([1.0]), np.array([1.0, 2.0])) == (0.0, 0.0)


def tenants(slow_ms: int, fast_ms: int) -> str:
    """x slows down from 10 ms a call to `slow_ms`; y goes from 10 ms to `fast_ms`."""
    out, at = ["workload tenants"], 0
    for phase, own in (("solo", {"x": 10, "y": 10}), ("together", {"x": slow_ms, "y": fast_ms})):
        for number in (1, 2, 3):
            for tenant, ms in own.items():
                out += [
                    f"{(at + call * ms) / 1000}..{(at + call * ms + ms) / 1000} {tenant.upper()} read f "
                    f"0+100 tenant={tenant} phase={phase} round={number} bytes=1000"
                    for call in range(5)
                ]
                at += 0 if phase == "together" else 10_000
            at += 10_000
    return "\n".join(out)


def test_victim_and_aggressor() -> None:
    x, y = rows(TenantRow, tenants(50, 10))
    assert x.slowdown == pytest.approx(5.0) and y.slowdown == pytest.approx(1.0)
    assert x.latency_ns_p50_solo == s(0.01) and x.latency_ns_p50 == s(0.05)
    assert y.share_together == pytest.approx(5 / 6)
    (finding,) = findings("tenant-slowed", tenants(50, 10))
    assert finding.title.startswith("tenant x is 5.0 times slower beside y")
    assert finding.facts["aggressor"] == "y" and finding.facts["total_grew"] == 1
    # both at a fifth: together no more than one alone
    both = findings("tenant-slowed", tenants(50, 50))
    assert {f.subject.name for f in both} == {"x", "y"}
    assert all("isn't bandwidth" in f.explanation and f.facts["aggressor"] == "" for f in both)


def mount(fstype: str, options: str = "rw", version: str = "4.1") -> MountRow:
    return MountRow("A", family_of(fstype), fstype, version, "server", "/mnt", options)


@pytest.mark.parametrize(
    ("row", "promise", "level", "bound_s"),
    [
        (mount("nfs4"), "close-to-open", Level.PROMISED, 0),
        (mount("nfs4", "rw,nocto"), "close-to-open", Level.NOT_PROMISED, 0),
        (mount("nfs4"), "staleness", Level.BOUNDED, 60),
        (mount("nfs4", "rw,acregmax=7"), "staleness", Level.BOUNDED, 7),
        (mount("nfs4", "rw,noac"), "staleness", Level.BOUNDED, 0),
        (mount("nfs4", "rw,acdirmax=5"), "publish", Level.BOUNDED, 5),
        (mount("nfs4", "rw,local_lock=none"), "lock-exclusion", Level.PROMISED, 0),
        (mount("nfs", "rw,local_lock=all", "3"), "lock-exclusion", Level.NOT_PROMISED, 0),
        (mount("nfs", "rw", "3"), "zombie-write", Level.NOT_PROMISED, 0),
        (mount("nfs4"), "append", Level.NOT_PROMISED, 0),
        (mount("ceph"), "append", Level.PROMISED, 0),
        (mount("fuse.ceph-fuse"), "coherent", Level.PROMISED, 0),
        (mount("ceph"), "mmap", Level.NOT_PROMISED, 0),
        (mount("ext4"), "coherent", Level.PROMISED, 0),
        (mount("fuse.juicefs"), "coherent", Level.UNKNOWN, 0),
    ],
)
def test_expectations(row: MountRow, promise: str, level: Level, bound_s: int) -> None:
    found = expectation(row, promise)
    assert (found.level, found.bound_ns) == (level, s(bound_s))
    assert found.why


def test_every_promise_has_an_expectation_on_every_known_mount() -> None:
    for fstype in ("nfs4", "ceph", "fuse.ceph-fuse", "xfs"):
        for promise in PROMISES:
            assert expectation(mount(fstype), promise).why != "nobody promises it", (fstype, promise)


def test_the_weakest_mount_decides() -> None:
    both = [mount("nfs4", "rw,acregmax=3"), mount("nfs4", "rw,acregmax=9")]
    assert weakest(both, "staleness").bound_ns == s(9)
    assert weakest([*both, mount("nfs4", "rw,nocto")], "close-to-open").level is Level.NOT_PROMISED
    assert weakest([], "append").level is Level.UNKNOWN


def test_matrix_has_all_four_verdicts() -> None:
    text = lines(
        *(NFS.format(node, "rw,vers=4.1,local_lock=none") for node in "AB"),
        "workload locks",
        "0..1 A lock f 0+10 write",
        "2..3 B lock f 5+10 write",
        "4..5 A unlock f 0+10",
        "6..7 B unlock f 5+10",
        "workload register",
        "0..1 A write g =1",
        "2..3 B read g =1",
        "workload exclusive",
        "0..1 A create n",
        "0..1 B create n -> EEXIST",
    )
    found = judged(text, {"coherent": "the clock of B could not be read"})
    assert list(found) == list(PROMISES)
    locks = found["lock-exclusion"]
    assert (locks.verdict, locks.expected, locks.surprise) == (Verdict.VIOLATED, Level.PROMISED, True)
    assert locks.observed == "1 broken of 1 judged (overlap), by up to 1.00 s"
    assert locks.witness == ("example#5", "example#9", "example#7", "example#11")
    assert found["coherent"].verdict is Verdict.UNKNOWN
    assert found["coherent"].observed == "the clock of B could not be read"
    assert found["exclusive-create"].verdict is Verdict.UPHELD
    assert found["append"].verdict is Verdict.NOT_EXERCISED


def test_uncontended_locks_are_not_exercised() -> None:
    text = "workload locks\n0..1 A lock f 0+10 write\n2..3 A unlock f 0+10\n4..5 B lock f 0+10 write"
    row = judged(text)["lock-exclusion"]
    assert (row.verdict, row.observed) == (
        Verdict.NOT_EXERCISED, "no two owners wanted the same lock at the same time",
    )  # fmt: skip
