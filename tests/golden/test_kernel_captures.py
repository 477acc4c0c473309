"""Linux kernel clients and knfsd: what the clients themselves wrote down, held against the analysis."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from tests.golden.truth import (
    CLIENTS,
    MS,
    SECOND,
    analysed,
    by_rule,
    calls,
    held_against_truth,
    rules,
    took,
    truth,
)


@pytest.mark.parametrize("name", ["kernel-lock-contention", "kernel-nfs40"])
def test_every_wait_is_a_call_that_waited(name: str, folder: Path) -> None:
    unseen = held_against_truth(name, folder)
    # what two processes of one client settle between them never reaches the wire
    assert {line["offset"] for line in unseen} <= {1000}


@pytest.mark.parametrize("name", ["kernel-lock-contention", "kernel-nfs40"])
def test_every_lock_that_a_client_got_is_a_grant(name: str, folder: Path) -> None:
    (found,) = by_rule(analysed(name, folder))["lock-contended-file"]
    assert found["facts"]["grants"] == len(calls(name, what="lock", result="ok"))


def test_contention_on_a_server_that_notifies(folder: Path) -> None:
    report = analysed("kernel-lock-contention", folder)
    assert rules(report) == {"lock-contended-file", "lock-long-wait", "lock-starvation"}
    assert report["coverage"]["degraded"] is False
    assert all(wait["notified"] for wait in report["waits"] if wait["blocking"])
    # the lock is handed over within milliseconds, but for one process that ran late
    assert median(wait["backoff_ns"] for wait in report["waits"] if wait["blocking"]) < MS


def test_the_starved_writer(folder: Path) -> None:
    """Readers of both clients kept a writer waiting: ten others asked later and were served first."""
    (found,) = by_rule(analysed("kernel-lock-contention", folder))["lock-starvation"]
    (writer,) = [line for line in calls("kernel-lock-contention", what="lock", result="ok")
                 if took(line) > 1.9 * SECOND]  # fmt: skip
    later = [
        line
        for line in calls("kernel-lock-contention", what="lock", offset=1000)
        if writer["wall_start_ns"] + 30 * MS < line["wall_start_ns"] < writer["wall_end_ns"]
    ]
    assert found["facts"]["bypasses"] == len(later) == 10
    assert "client 10.99.0.3 was passed over 10 times in 1.91 s" in found["title"]
    assert found["facts"]["wait_ns"] == pytest.approx(took(writer), abs=30 * MS)


def test_tries_without_waiting_are_one_wait_that_does_not_block(folder: Path) -> None:
    tries = calls("kernel-lock-contention", what="lock", blocking=False)
    (wait,) = [w for w in analysed("kernel-lock-contention", folder)["waits"] if not w["blocking"]]
    assert wait["denials"] == sum(line["result"] == "EAGAIN" for line in tries) == 4
    assert wait["granted_ns"] == pytest.approx(tries[-1]["wall_end_ns"], abs=15 * MS)


def test_contention_over_nfs_4_0_is_polling(folder: Path) -> None:
    found = by_rule(analysed("kernel-nfs40", folder))
    assert "lock-denied-by-self" not in found  # LOCKU and the next process's LOCK raced
    (polling,) = found["lock-polling-backoff"]
    assert (polling["facts"]["may_notify"], polling["facts"]["waits"]) == (0, 6)
    assert polling["facts"]["worst_backoff_ns"] / SECOND == pytest.approx(5.32, abs=0.01)
    assert "NFSv4.0 has no callback for that" in polling["explanation"]
    worst = max(found["lock-long-wait"], key=lambda f: f["facts"]["wait_ns"])
    longest = max(took(line) for line in calls("kernel-nfs40", what="lock"))
    assert worst["facts"]["wait_ns"] == pytest.approx(longest, abs=10 * MS)
    assert "5.32 s of its own back-off" in worst["title"]


def test_grace_of_a_fresh_server(folder: Path) -> None:
    """The first open took 27 s: 6.6 s of grace were seen, the rest was the client's back-off."""
    (found,) = by_rule(analysed("kernel-nfs40", folder))["grace-period"]
    (first,) = calls("kernel-nfs40", what="open", who="clientb", process="p1")
    opened = took(first)
    assert found["facts"]["longest_wait_ns"] == pytest.approx(opened, abs=60 * MS)
    assert found["facts"]["backoff_ns"] / SECOND == pytest.approx(20.48, abs=0.01)
    assert "20.48 s came after its last refusal" in found["explanation"]


# --- lost locks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "held_both"), [("kernel-lost-lock-zombie", 2.01), ("kernel-lost-lock-regained", 2.01)]
)
def test_the_lock_that_a_frozen_client_lost(name: str, held_both: float, folder: Path) -> None:
    found = by_rule(analysed(name, folder))
    (lost,) = found["lock-lost"]
    assert (lost["severity"], lost["confidence"]) == ("critical", "high")
    assert lost["title"].startswith("client 10.99.0.2 lost its write lock on /data.db (bytes 0-99)")
    assert "client 10.99.0.3 got the range meanwhile, 2.01 s before" in lost["title"]
    (got,) = [line for line in calls(name, what="lock", who="clientb") if took(line) > SECOND]
    (thaw,) = calls(name, what="thaw")
    both_ns = thaw["wall_end_ns"] - got["wall_end_ns"]
    assert lost["facts"]["both_held_ns"] == pytest.approx(both_ns, abs=10 * MS)
    assert lost["facts"]["both_held_ns"] / SECOND == pytest.approx(held_both, abs=0.01)
    (gone,) = found["lock-holder-gone"]
    (freeze,) = calls(name, what="freeze")
    frozen_ns = thaw["wall_end_ns"] - freeze["wall_start_ns"]
    assert frozen_ns <= gone["facts"]["silent_ns"] < frozen_ns + SECOND
    assert gone["facts"]["longest_wait_ns"] == pytest.approx(took(got), abs=10 * MS)
    (gap,) = found["lease-gap"]
    assert gap["facts"]["lease_s"] == 10
    assert "10.99.0.2" in gap["title"]
    assert not {"lock-conflicting-grants", "server-restart", "client-identity-shared"} & set(found)


def test_the_zombie_write_never_reached_the_server(folder: Path) -> None:
    """The client's kernel knew: write() succeeded into its cache, fsync() failed with EIO."""
    name = "kernel-lost-lock-zombie"
    (failed,) = calls(name, what="fsync", result="EIO")
    assert failed["who"] == "clienta"
    found = by_rule(analysed(name, folder))
    assert not {"lock-zombie-write", "lock-write-into-locked-range", "unlocked-overwrite"} & set(found)


def test_a_lost_lock_that_the_kernel_took_again(folder: Path) -> None:
    """nfs.recover_lost_locks: the program wrote on without an error, over what the other had written."""
    name = "kernel-lost-lock-regained"
    assert not [line for line in truth(name) if line["result"] != "ok"]
    (lost,) = by_rule(analysed(name, folder))["lock-lost"]
    assert lost["facts"]["regained"] == 1
    assert "it took the lock again" in lost["explanation"]
    (other,) = by_rule(analysed("kernel-lost-lock-zombie", folder))["lock-lost"]
    assert other["facts"]["regained"] == 0  # granted much later, to a lock call of the program


# --- restart -----------------------------------------------------------------------------------------


def test_restart_reclaim_and_grace(folder: Path) -> None:
    name = "kernel-restart-reclaim"
    report = analysed(name, folder)
    found = by_rule(report)
    assert report["coverage"]["degraded"] is False
    assert not {"lock-lost", "reclaim-refused", "unanswered-call", "lock-conflicting-grants"} & set(found)
    (server,) = found["server-restart"]
    (restart,) = calls(name, what="restart")
    begin, end = server["when_ns"]
    assert begin <= restart["wall_down_ns"] < restart["wall_end_ns"] <= end + 100 * MS
    assert server["facts"]["window_ns"] / SECOND == pytest.approx(2.22, abs=0.01)
    assert {"10.99.0.2", "10.99.0.3"} == {f["title"].split()[1] for f in found["session-lost"]}
    holder = next(f for f in found["session-lost"] if "client 10.99.0.2" in f["title"])
    assert (holder["facts"]["reclaims"], holder["facts"]["reclaims_refused"]) == (3, 0)
    (grace,) = found["grace-period"]
    assert (grace["facts"]["refused"], grace["severity"]) == (1, "low")


def test_the_server_forgot_the_waiter(folder: Path) -> None:
    """The lock was held for longer than the lease: knfsd sent no CB_NOTIFY_LOCK, the client slept on."""
    name = "kernel-restart-reclaim"
    (found,) = by_rule(analysed(name, folder))["lock-long-wait"]
    waited = max(took(line) for line in calls(name, what="lock", who="clientb"))
    assert found["facts"]["wait_ns"] == pytest.approx(waited, abs=100 * MS)
    (unlock,) = [line for line in calls(name, what="unlock", who="clienta") if line["length"] == 100]
    (got,) = [line for line in calls(name, what="lock", who="clientb") if took(line) > 20 * SECOND]
    free_ns = got["wall_end_ns"] - unlock["wall_end_ns"]
    assert found["facts"]["backoff_ns"] == pytest.approx(free_ns, abs=85 * MS)
    assert found["facts"]["backoff_ns"] / SECOND == pytest.approx(14.50, abs=0.01)
    (polling,) = by_rule(analysed(name, folder))["lock-polling-backoff"]
    assert "forgets a waiter after one lease" in polling["explanation"]


def test_unstable_data_and_a_restart(folder: Path) -> None:
    """Three WRITEs of 4 KiB were answered UNSTABLE before the restart; those in flight were sent again
    on the next connection and are neither lost frames nor unanswered calls."""
    report = analysed("kernel-unstable-restart", folder)
    found = by_rule(report)
    assert report["coverage"]["degraded"] is False
    assert not {"unanswered-call", "unstable-never-committed", "write-failed"} & set(found)
    (server,) = found["server-restart"]
    assert (server["facts"]["uncommitted_writes"], server["facts"]["uncommitted_bytes"]) == (3, 12288)
    begin, end = server["when_ns"]
    (restart,) = calls("kernel-unstable-restart", what="restart")
    assert begin <= restart["wall_down_ns"] + 200 * MS  # answers came 0.2 s late
    assert restart["wall_end_ns"] <= end
    (verifier,) = found["write-verifier-changed"]
    assert verifier["severity"] == "low"
    assert "12 KiB" in verifier["title"] and "sent all of it again" in verifier["title"]


# --- delegations, deadlock ---------------------------------------------------------------------------


def test_delegation_recalls_that_cost_little(folder: Path) -> None:
    """Each open for writing took 0.1 s (DELAY, CB_RECALL, DELEGRETURN, the client's pause): no finding
    with the thresholds as they are, and the right numbers with others."""
    name = "kernel-delegation-recall"
    report = analysed(name, folder)
    assert report["findings"] == []
    assert report["coverage"]["degraded"] is False
    opens = [took(line) for line in calls(name, what="open", who="clientb")]
    assert len(opens) == 5
    found = analysed(name, folder, "delegation-recall-slow.slow_ns=50000")["findings"]
    assert [f["rule"] for f in found] == ["delegation-recall-slow"] * 5
    for number, (finding, spent) in enumerate(zip(found, opens, strict=True)):
        title = (
            f"client 10.99.0.2 took {finding['facts']['took_ns'] // 1000} µs to return its read delegation"
        )
        assert finding["title"].startswith(f"{title} on /model{number}.bin")
        assert finding["facts"]["took_ns"] < MS
        assert finding["facts"]["delayed_ns"] == pytest.approx(spent, abs=5 * MS)


def test_deadlock_ended_by_a_time_out(folder: Path) -> None:
    name = "kernel-deadlock"
    found = by_rule(analysed(name, folder))
    (given_up,) = calls(name, what="lock", result="EINTR")
    assert given_up["who"] == "clientb"
    (cycle,) = found["lock-wait-cycle"]
    assert (cycle["severity"], cycle["confidence"]) == ("medium", "medium")
    assert (cycle["facts"]["clients"], cycle["facts"]["gave_up"]) == (2, 1)
    assert cycle["facts"]["stood_ns"] == pytest.approx(took(given_up), abs=20 * MS)
    assert "10.99.0.3 waits for client 10.99.0.2 at /f1.db" in cycle["title"]
    assert "10.99.0.2 waits for client 10.99.0.3 at /f2.db" in cycle["title"]
    waits = {f["title"].split()[1]: f for f in found["lock-long-wait"]}
    assert "gave up waiting for a write lock on /f1.db" in waits["10.99.0.3"]["title"]
    assert waits["10.99.0.3"]["facts"]["wait_ns"] == pytest.approx(took(given_up), abs=20 * MS)
    (got,) = [line for line in calls(name, what="lock", who="clienta") if took(line) > SECOND]
    assert waits["10.99.0.2"]["facts"]["wait_ns"] == pytest.approx(took(got), abs=15 * MS)
    assert rules(analysed(name, folder)) == {"lock-wait-cycle", "lock-long-wait", "lock-contended-file"}


# --- data --------------------------------------------------------------------------------------------


def test_the_storm_of_fsyncs(folder: Path) -> None:
    name = "kernel-fsync-storm"
    report = analysed(name, folder)
    assert rules(report) == {"sync-storm"}
    (storm,) = report["findings"]
    synced = [line for line in calls(name, what="fsync") if line["process"] != "reader"]
    assert storm["facts"]["stable_writes"] == len(synced) == 480
    assert (storm["facts"]["commits"], storm["facts"]["clients"], storm["facts"]["files"]) == (0, 2, 8)
    spent = max(line["wall_end_ns"] for line in synced) - min(line["wall_start_ns"] for line in synced)
    assert storm["facts"]["duration_ns"] == pytest.approx(spent, rel=0.1)
    assert storm["severity"] == "low"  # the reader's median stayed at 0.6 ms


def test_unlocked_appends_lose_records(folder: Path) -> None:
    name = "kernel-append"
    (count,) = calls(name, what="records found")
    assert (len(calls(name, what="append", result="ok")), count["value"]) == (80, 31)
    (found,) = by_rule(analysed(name, folder))["unlocked-overwrite"]
    assert (found["severity"], found["facts"]["clients"], found["facts"]["turns"]) == ("high", 2, 33)
    assert "/events.log" in found["title"] and "as appending does" in found["title"]
    assert rules(analysed(name, folder)) == {"unlocked-overwrite", "sync-storm"}


def test_small_files(folder: Path) -> None:
    name = "kernel-small-files"
    report = analysed(name, folder)
    assert rules(report) == {"small-file-loop"}
    for finding, who in zip(report["findings"], CLIENTS, strict=True):
        opens = calls(name, what="open", who=who)
        assert finding["title"].startswith(f"client {CLIENTS[who]} opened {len(opens)} files in /shards")
        assert finding["severity"] == "low"
        assert finding["facts"]["data_bytes"] == 300 * 120  # what READ returned, not the 4 KiB it asked for
        assert "for 120 bytes each on average" in finding["title"]
