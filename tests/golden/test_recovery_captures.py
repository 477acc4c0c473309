"""Captures of partitions, late and missing reclaims, and of a server that notifies nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.truth import MS, SECOND, analysed, by_rule, calls, held_against_truth, rules, took


def test_waits_at_a_server_that_notifies_nobody(folder: Path) -> None:
    """Ganesha: B asks again after 1, 2 and 4 s, whenever A gave the lock back."""
    held_against_truth("ganesha-lock-polling", folder)
    report = analysed("ganesha-lock-polling", folder)
    waits = sorted((wait for wait in report["waits"] if wait["blocking"]), key=lambda w: int(w["asked_ns"]))
    assert [round((w["granted_ns"] - w["asked_ns"]) / SECOND, 1) for w in waits] == [1.1, 3.1, 7.2]
    unlocks = calls("ganesha-lock-polling", what="unlock", who="clienta")
    for wait, unlock in zip(waits, unlocks, strict=True):
        assert wait["hold_ns"] == pytest.approx(unlock["wall_end_ns"] - wait["asked_ns"], abs=10 * MS)
        assert wait["queue_ns"] == 0
    (found,) = by_rule(report)["lock-polling-backoff"]
    assert "in 3 waits clients slept 5.67 s (49 % of their waiting)" in found["title"]
    assert rules(report, "high") == set()


def test_a_partition_costs_the_lock(folder: Path) -> None:
    """A was cut off from its fsync to 2 s after B had the lock; its next fsync failed with EIO."""
    name = "kernel-lost-lock-partition"
    (failed,) = [line for line in calls(name, what="fsync", who="clienta") if line["result"] == "EIO"]
    found = by_rule(analysed(name, folder))
    (lost,) = found["lock-lost"]
    assert lost["title"].startswith("client 10.99.0.2 lost its write lock on /data.db (bytes 0-99)")
    assert "client 10.99.0.3 got the range meanwhile" in lost["title"]
    assert lost["severity"] == "critical"
    first, last = lost["when_ns"]
    assert first < failed["wall_start_ns"] < last + took(failed)
    (cut,) = calls(name, what="partition")
    (gap,) = found["lease-gap"]
    assert gap["when_ns"][0] == pytest.approx(cut["wall_start_ns"], abs=SECOND)
    (recall,) = found["delegation-recall-slow"]  # B's open waited for A's delegation
    (opened,) = calls(name, what="open", who="clientb")
    assert "1 other client got DELAY 7 times meanwhile, for 13.10 s" in recall["title"]
    assert took(opened) / SECOND == pytest.approx(13.1, abs=0.1)
    assert not {"server-restart", "client-identity-shared", "lock-conflicting-grants"} & set(found)


def test_a_reclaim_that_came_too_late(folder: Path) -> None:
    """A was cut off while the server restarted, and back after the grace period: B has its lock."""
    name = "kernel-restart-late-reclaim"
    found = by_rule(analysed(name, folder))
    (lost,) = found["lock-lost"]
    assert lost["title"].startswith("client 10.99.0.2 lost its write lock on /data.db (bytes 0-99)")
    (restarted,) = found["server-restart"]
    (truth,) = calls(name, what="restart")
    first, last = restarted["when_ns"]
    assert first <= truth["wall_end_ns"] and last >= truth["wall_start_ns"]
    (refused,) = found["reclaim-refused"]
    assert refused["title"].startswith("client 10.99.0.2 got NO_GRACE once on OPEN")
    (grace,) = found["grace-period"]
    (waited,) = calls(name, what="lock", who="clientb")
    assert "client 10.99.0.3 waited longest, 13.47 s until it got through" in grace["title"]
    assert took(waited) / SECOND == pytest.approx(13.5, abs=0.1)
    (gap,) = found["lease-gap"]
    assert gap["title"].endswith("in which the server restarted") and gap["severity"] == "low"


def test_a_lock_that_nobody_reclaims(folder: Path) -> None:
    """A lost power and the server restarted: B waits for the grace period, and nobody lost anything."""
    name = "kernel-restart-no-reclaim"
    report = analysed(name, folder)
    found = by_rule(report)
    (grace,) = found["grace-period"]
    assert "refused 1 client 7 times with GRACE during 6.55 s" in grace["title"]
    (waited,) = calls(name, what="lock", who="clientb")
    assert took(waited) / SECOND == pytest.approx(13.58, abs=0.1)
    assert rules(report, "high") == set()
    assert not {"lock-lost", "reclaim-refused", "lock-zombie-write"} & set(found)
