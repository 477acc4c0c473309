"""A client was silent for longer than the lease.

**What it checks.** The longest time in which a client sent nothing to a server, against the lease time
that the server told (attribute lease_time).

**Why it matters.** Every request renews the lease; Linux clients send one after two thirds of the lease
when they have nothing else to do. A longer silence means that the client was frozen, overloaded or cut
off, and the server may have given its opens and locks to others. If the client was then told that its
state is gone, it was more than a risk.

**When it is wrong.** If the capture doesn't see all of the client's connections, silence means nothing:
capture at the server. NFSv4.0 clients without open files needn't renew, so that there a silence counts
only if the server then refused the client's state. Many servers keep the state of a silent client until
somebody else wants it. Without the lease time in the input the rule only reports silences that ended
with EXPIRED, and can't judge others of 90 s and more; give the lease as `--set lease-gap.lease_s=90`. A
refusal after a restart of the server is the restart's doing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from analyzer.analysis.clients import ClientRow, Labels
from analyzer.analysis.failures import TOPICS, FailureRow
from analyzer.analysis.server import RestartRow, ServerRow
from analyzer.analysis.silence import SilenceRow
from analyzer.analysis.words import duration
from analyzer.core.errors import PremiseError
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule

_S = 1_000_000_000
_STATE_GONE = TOPICS["expired"] | TOPICS["session"] | TOPICS["stale"] | TOPICS["revoked"]


def check(case: Case) -> Iterator[Hit]:
    """One hit per client and server: its longest silence."""
    labels = Labels.of(case)
    told = {row.endpoint: row.lease_seconds for row in case.rows(ServerRow)}
    lost = _first_losses(case)
    gone = _client_ids_gone(case)
    restarts = [(row.endpoint, row.not_before_ns, row.not_after_ns) for row in case.rows(RestartRow)]
    longest: dict[tuple[str, str], SilenceRow] = {}
    for row in case.rows(SilenceRow):
        key = (row.endpoint, row.client)
        if key not in longest or _length(row) > _length(longest[key]):
            longest[key] = row
    hits = []
    unjudged: list[SilenceRow] = []
    for key, row in longest.items():
        if _active_elsewhere(row, labels) or (row.endpoint, row.client, row.start_ns) in gone:
            continue
        lease = int(case.options["lease_s"]) or told.get(row.endpoint)
        restarted = _restarted(row, restarts)
        status = _loss_after(row, lost.get(key, []), restarted)
        if lease is None:
            if status == "EXPIRED" and _length(row) >= 10 * _S:
                hits.append(_hit(row, None, status, restarted, labels))
            elif _length(row) >= case.options["worth_asking_ns"] and (row.sessions or status):
                unjudged.append(row)
        elif _length(row) > lease * _S and (row.sessions or status):
            hits.append(_hit(row, lease, status, restarted, labels))
    if unjudged and not hits:
        worst = max(unjudged, key=_length)
        raise PremiseError(
            f"the lease time isn't in this input; {labels.client(worst.client)} was silent for "
            f"{duration(_length(worst))} (give the lease: --set lease-gap.lease_s=90)"
        )
    yield from hits


def _length(row: SilenceRow) -> int:
    return row.end_ns - row.start_ns


def _first_losses(case: Case) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """When each client was first told that its state is gone, per status."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row in case.rows(FailureRow):
        if row.status in _STATE_GONE and row.client is not None and not row.callback:
            found[(row.endpoint, row.client)].append((row.first_ns, row.status))
    return found


def _client_ids_gone(case: Case) -> set[tuple[str, str | None, int]]:
    """When clients were told that their client id is unknown. Silence from then on is none: whoever it
    was goes on under a new one, and the two can't be told to be one where the capture began later."""
    rows = case.rows(FailureRow)
    return {(r.endpoint, r.client, r.last_ns) for r in rows if r.status == "STALE_CLIENTID"}


def _restarted(row: SilenceRow, restarts: list[tuple[str, int, int]]) -> bool:
    """Whether the server restarted during the silence."""
    return any(
        endpoint == row.endpoint and first <= row.end_ns and last >= row.start_ns
        for endpoint, first, last in restarts
    )


def _loss_after(row: SilenceRow, lost: list[tuple[int, str]], restarted: bool) -> str | None:
    """What the client was told of its state right after the silence, unless a restart explains it."""
    status = next((s for when, s in lost if 0 <= when - row.end_ns <= 10 * _S), None)
    return None if restarted and status != "EXPIRED" else status


def _active_elsewhere(row: SilenceRow, labels: Labels) -> bool:
    """Trunking: the same client id used at another address of the server meanwhile."""
    rows = labels.at.get(row.client, [])
    own = {clientid for r in rows if r.endpoint == row.endpoint for clientid in r.clientids}
    return any(
        r.endpoint != row.endpoint
        and own & set(r.clientids)
        and r.first_ns < row.end_ns
        and r.last_ns > row.start_ns
        for r in rows
    )


def _hit(row: SilenceRow, lease: int | None, status: str | None, restarted: bool, labels: Labels) -> Hit:
    length = _length(row)
    limit = f"longer than the lease of {lease} s," if lease else "the lease isn't known,"
    if status is not None:
        end, severity = f"and was then told {status}", Severity.HIGH
    elif restarted:
        end, severity = "in which the server restarted", Severity.LOW
    elif row.ended:
        end, severity = "and wasn't told afterwards that its state was gone", Severity.LOW
    else:
        end, severity = "up to the end of the input", Severity.LOW
    return Hit(
        subject=labels.subject(row.client, row.endpoint),
        message=f"{labels.client(row.client)} sent nothing to server {row.endpoint} for "
        f"{duration(length)}, {limit} {end}",
        evidence=row.evidence,
        when=(row.start_ns, row.end_ns),
        leans_on=(row.client,),
        severity=severity,
        complete=row.ended,
        facts={"silent_ns": length, "lease_s": lease or 0, "status": status or ""},
    )


RULE = Rule(
    id="lease-gap",
    title="Client silent for longer than the lease",
    severity=Severity.HIGH,
    confidence=Confidence.MEDIUM,
    blame=Blame.CLIENT,
    reads=(ClientRow, FailureRow, RestartRow, ServerRow, SilenceRow),
    check=check,
    remedy="Find what stopped the client at that time: a paused or migrated guest, memory pressure, a "
    "network cut (`journalctl -k --since ...` on the client); if such pauses are normal there, raise the "
    "server's lease.",
    references=("RFC 8881, sections 8.3 and 8.4.3", "RFC 7530, section 9.5"),
    options={"lease_s": 0, "worth_asking_ns": 90_000_000_000},
    bad=(
        """
        1 A getattr f lease_seconds=10
        2 A read f 0+10
        30 A read f 0+10 -> EXPIRED
        """,
        "1 A getattr f lease_seconds=10\n40 A session -",
    ),
    good=(
        "1 A getattr f lease_seconds=10\n8 A session -\n15 A session -",
        # unmounted, then mounted again
        """
        1 A getattr f lease_seconds=10
        2 A session - op=DESTROY_CLIENTID
        60 A session - op=EXCHANGE_ID
        """,
        # unmounted; its last farewell was not captured
        "1 A getattr f lease_seconds=10\n2 A session - op=DESTROY_SESSION\n40 B session -",
        # unmounted; an earlier call was never answered
        """
        1 A getattr f lease_seconds=10
        2.. A session - op=CREATE_SESSION
        3 A session - op=DESTROY_CLIENTID
        40 B session -
        """,
        # its client id is unknown after a restart, it goes on as B
        """
        1 A getattr f lease_seconds=10
        2 A session - op=CREATE_SESSION -> STALE_CLIENTID
        2.1 B session - op=EXCHANGE_ID
        9 B session -
        16 B session -
        """,
        # NFSv4.0 without open files
        "1 A getattr f lease_seconds=10 protocol=nfs4.0\n90 A getattr f protocol=nfs4.0",
    ),
)
