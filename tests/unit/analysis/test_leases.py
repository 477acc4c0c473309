"""Silence against the lease, shared identities, loops, flags."""

from __future__ import annotations

import pytest

from analyzer.analysis.identities import SharedIdentityRow
from analyzer.analysis.loops import LoopRow
from analyzer.analysis.silence import SilenceRow
from analyzer.core.coverage import Coverage
from analyzer.core.finding import Confidence, Severity, Verdict
from analyzer.core.notation import parse_events
from analyzer.core.rule import folds_for, judge, run_folds
from analyzer.core.table import Tables
from tests.unit.analysis.helpers import FOLDS, RULES, findings, rows, s

GAP = """
1 A getattr f lease_seconds=10
2.0..2.5 A read f 0+10
3 B read f 0+10
9 B session -
18 B session -
26 B session -
30 A write f 0+10 -> EXPIRED
31 B session -
"""


@pytest.mark.parametrize("batch_rows", [None, 1, 2, 3])
def test_longest_silence(batch_rows: int | None) -> None:
    found = {(r.client, r.start_ns, r.end_ns) for r in rows(SilenceRow, GAP, batch_rows)}
    assert ("A", s(2.5), s(30)) in found and ("B", s(9), s(18)) in found
    (hit,) = findings("lease-gap", GAP, batch_rows)
    assert hit.facts["silent_ns"] == s(27.5) and hit.facts["lease_s"] == 10
    assert hit.facts["status"] == "EXPIRED" and hit.severity is Severity.HIGH


@pytest.mark.parametrize("batch_rows", [None, 1, 2])
def test_a_request_in_flight_is_no_silence(batch_rows: int | None) -> None:
    # the reply of the second call comes after that of the third: only then the call is known
    text = "1 A read f 0+1\n5..40 A read f 0+1\n30..31 A read f 0+1"
    found = [(r.start_ns, r.end_ns) for r in rows(SilenceRow, text, batch_rows)]
    assert found == [(s(1), s(5))]


def test_an_unanswered_call_ends_a_silence() -> None:
    text = "1 A read f 0+1\n12.. A read f 0+1\n25 A read f 0+1"
    for batch_rows in (None, 1):
        assert (s(1), s(12)) in [(r.start_ns, r.end_ns) for r in rows(SilenceRow, text, batch_rows)]


def test_silence_of_a_client_that_never_comes_back_is_low() -> None:
    (found,) = findings(
        "lease-gap", "1 A getattr f lease_seconds=10\n5 B read f 0+1\n8 B read f 0+1\n14 B read f 0+1"
    )
    assert found.severity is Severity.LOW and found.confidence is Confidence.LOW
    assert found.facts["silent_ns"] == s(13)


def test_answers_to_callbacks_do_not_renew_a_lease() -> None:
    text = "1 A getattr f lease_seconds=10\n6 A recall f stateid=d\n12 A session - -> EXPIRED"
    (found,) = findings("lease-gap", text)
    assert found.facts["silent_ns"] == s(11)


def _verdict(text: str) -> tuple[Verdict, str]:
    batch, tables, rule = parse_events(text), Tables(), RULES["lease-gap"]
    kinds = run_folds([batch], folds_for([rule], list(FOLDS.values())), tables)
    (judgement,) = judge([rule], tables, Coverage(), kinds).judgements
    return judgement.verdict, judgement.reason


def test_without_the_lease_a_long_silence_cannot_be_judged() -> None:
    verdict, reason = _verdict("1 A session -\n100 A session -")
    assert verdict is Verdict.UNKNOWN and "99.00 s" in reason and "lease_s=90" in reason
    assert _verdict("1 A session -\n60 A session -")[0] is Verdict.UPHELD
    (found,) = findings("lease-gap", "1 A session -\n100 A session -", lease_s=90)
    assert found.facts["silent_ns"] == s(99)


def test_a_loss_after_a_restart_is_not_blamed_on_the_silence() -> None:
    text = """
    1 A getattr f lease_seconds=10
    2 A write f 0+10 unstable value=v1 session=a
    30 A session - session=a -> BADSESSION
    31 A commit f value=v2 session=b
    """
    (found,) = findings("lease-gap", text)
    assert found.severity is Severity.LOW and found.facts["status"] == ""


def test_trunking_is_no_silence() -> None:
    lines = ["1 A getattr f lease_seconds=10 endpoint=one:2049", "40 A read f 0+1 endpoint=one:2049"]
    lines += [f"{t} A read f 0+1 endpoint=two:2049" for t in range(2, 40, 5)]
    assert findings("lease-gap", "\n".join(lines)) == []


def test_lease_expired_names_the_silence() -> None:
    (found,) = findings("lease-expired", GAP)
    assert found.facts["silent_ns"] == s(27.5) and found.facts["count"] == 1


def _named(at: float, address: str, verifier: str, op: str = "EXCHANGE_ID", identity: str = "node") -> str:
    return (
        f"{at} X session - op={op} identity={identity} value={verifier} connection={address}:7>server:2049"
    )


@pytest.mark.parametrize("op", ["EXCHANGE_ID", "SETCLIENTID"])
def test_shared_identity_counts_returns(op: str) -> None:
    steps = [("a", "v1"), ("b", "v2"), ("a", "v1"), ("a", "v1"), ("b", "v2")]
    text = "\n".join(_named(at, host, verifier, op) for at, (host, verifier) in enumerate(steps, 1))
    (row,) = rows(SharedIdentityRow, text, 2)
    assert (row.returns, row.addresses, row.verifiers) == (2, ("a", "b"), ("v1", "v2"))
    (found,) = findings("client-identity-shared", text)
    assert found.facts["lasted_ns"] == s(4) and "hosts a and b" in found.title


@pytest.mark.parametrize(
    "steps",
    [
        [("a", "v1"), ("a", "v2"), ("a", "v3")],  # reboots
        [("a", "v1"), ("b", "v2"), ("b", "v2")],  # a reboot with a new address
        [("a", "v1"), ("b", "v1"), ("a", "v1")],  # trunking
        [("a", "v1"), ("a", "v2"), ("a", "v1")],  # one address: can't be told apart
    ],
)
def test_one_host_shares_with_nobody(steps: list[tuple[str, str]]) -> None:
    text = "\n".join(_named(at, host, verifier) for at, (host, verifier) in enumerate(steps, 1))
    assert rows(SharedIdentityRow, text) == []


def test_loop_counts_rounds_and_rate() -> None:
    lines = [f"{at} A stateid - stateid=01 results=ok,BAD_STATEID,BAD_STATEID" for at in range(1, 12)]
    (row,) = rows(LoopRow, "\n".join(lines), 3)
    assert (row.count, row.inside, row.rounds) == (22, 22, 11)
    (found,) = findings("recovery-loop", "\n".join(lines))
    assert found.facts["rate_per_s"] == 2.2 and found.severity is Severity.HIGH


def test_session_loop_is_per_client_whatever_the_session() -> None:
    lines = [f"{at} A session - session=s{at} -> BADSESSION" for at in range(1, 7)]
    (found,) = findings("recovery-loop", "\n".join(lines))
    assert found.facts["rounds"] == 6


def test_a_fast_retry_storm_is_few_rounds() -> None:
    lines = [f"1.0{at} A write f 0+1 -> BAD_STATEID" for at in range(10)]
    assert findings("recovery-loop", "\n".join(lines)) == []


def test_flags_are_split_by_bit_and_judged_by_their_rules() -> None:
    text = """
    1 A session - flags=0x109
    3 A session - flags=0x101
    4 A session - flags=0x40
    5 B session - flags=0x800
    """
    flags = {(f.facts["flag"], f.facts["count"], f.severity) for f in findings("sequence-flags", text)}
    assert flags == {
        ("RESTART_RECLAIM_NEEDED", 2, Severity.MEDIUM),
        ("EXPIRED_ALL_STATE_REVOKED", 1, Severity.HIGH),
        ("DEVID_CHANGED", 1, Severity.INFO),
    }
    (path,) = findings("callback-path-down", text)
    assert path.facts["lasted_ns"] == s(2) and path.severity is Severity.MEDIUM
    (revoked,) = findings("delegation-revoked", text)
    assert revoked.facts["count"] == 1


def test_a_callback_path_that_is_down_for_a_moment_is_low() -> None:
    (found,) = findings("callback-path-down", "1 A session - flags=0x200\n1.5 A session - flags=0x200")
    assert found.severity is Severity.LOW


def test_one_flag_for_many_clients_is_one_finding() -> None:
    lines = [f"{n} c{n} session - flags=0x100" for n in range(1, 9)]
    (found,) = findings("sequence-flags", "\n".join(lines))
    assert found.facts["clients"] == 8
