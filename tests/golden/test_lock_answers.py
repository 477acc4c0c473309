"""Locks in the real captures: the answers that their truth files give, in numbers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyzer.pipeline.capture import CaptureJob, analyse_capture

CAPTURES = Path(__file__).parents[2] / "captures"
SECOND = 1_000_000_000
_LOCKS = ("lock-", "share-")


@cache
def findings(name: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Findings of the rules for locks and share modes, by rule."""
    analyse_capture(CaptureJob((str(CAPTURES / name),), output=folder, formats=("json",)))
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads((folder / "report.json").read_text("utf-8"))["findings"]:
        if finding["rule"].startswith(_LOCKS):
            found.setdefault(finding["rule"], []).append(finding)
    return found


@pytest.fixture(scope="module")
def ganesha(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ganesha") / "run"
    return findings("nfs41-ganesha-locks-restart-port20490.pcap", folder)


def test_the_wait_of_b_is_hold_and_back_off(ganesha: dict[str, list[dict[str, Any]]]) -> None:
    (found,) = ganesha["lock-long-wait"]
    facts = found["facts"]
    assert (facts["waiter"], facts["holder"]) == ("hostB", "hostA")
    assert facts["wait_ns"] / SECOND == pytest.approx(7.01, abs=0.005)
    assert facts["hold_ns"] / SECOND == pytest.approx(5.50, abs=0.005)
    assert facts["backoff_ns"] / SECOND == pytest.approx(1.51, abs=0.005)
    assert facts["queue_ns"] == 0
    assert facts["denials"] == 3
    assert "7.01 s" in found["title"] and "5.50 s behind" in found["title"]
    assert "1.51 s of its own back-off" in found["title"]


def test_the_server_does_not_notify(ganesha: dict[str, list[dict[str, Any]]]) -> None:
    (found,) = ganesha["lock-polling-backoff"]
    assert found["facts"]["waits"] == 1
    assert found["facts"]["may_notify"] == 0


def test_share_denied_names_c(ganesha: dict[str, list[dict[str, Any]]]) -> None:
    (found,) = ganesha["share-denied"]
    assert (found["facts"]["client"], found["facts"]["holder"]) == ("hostB", "hostC")
    assert found["facts"]["holder_deny"] == 3


def test_nothing_else_of_locks_in_ganesha(ganesha: dict[str, list[dict[str, Any]]]) -> None:
    """A reclaimed its lock after the restart; no lock was lost, doubled, or written into."""
    assert set(ganesha) == {
        "lock-long-wait",
        "lock-polling-backoff",
        "lock-contended-file",
        "share-denied",
    }


def test_two_kernel_clients_have_no_lock_trouble(tmp_path: Path) -> None:
    assert findings("nfs41-two-kernel-clients.pcapng", tmp_path / "run") == {}


def test_locks_of_the_conformance_suite(tmp_path: Path) -> None:
    """Its tests let the lease of a holder run out (LKU10, LOCK13). They deny locks by another owner of
    the same client too, within milliseconds: nothing that tells a fault from a race."""
    found = findings("nfs40-pynfs-locks.pcap", tmp_path / "run")
    assert set(found) == {"lock-lost", "share-denied"}
    lost = {f["facts"]["cause"]: f for f in found["lock-lost"]}
    assert set(lost) == {"EXPIRED"}
    assert len(found["lock-lost"]) == 2
    assert {f["facts"]["next_client"] != "" for f in found["lock-lost"]} == {True, False}
