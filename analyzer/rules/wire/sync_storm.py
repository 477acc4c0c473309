"""What it checks: many synchronous writes at the same time. A sync operation is a COMMIT or a WRITE that
asks for DATA_SYNC or FILE_SYNC (an fsync of a small file is sent as such a WRITE, with no COMMIT). It is a
storm when in one second at least `syncs_per_second` were answered and they competed: at least
`outstanding` at one time, or by two clients at one time, or interleaved over at least `outstanding` files.
As many COMMITs from a single writer are reported with low severity: they slow down the writer.

Why it matters: each one makes the server wait for stable storage, and they queue there. All other calls
wait behind them: the finding compares how long other operations took in seconds with and without a storm.
The usual cause is that all ranks write a checkpoint at once and call fsync after every small write.

When it is wrong: the threshold of 50 a second is about half of what one disk of 7200 rpm can do; flash with
power-loss protection does many thousands, and if nobody else was slowed down the severity stays low. Other
calls may be slow in the same seconds for another reason. Times are of whole seconds: a burst shorter than
that is measured with the calm around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analyzer.analysis.clients import ClientRow, Labels, server_subject
from analyzer.analysis.sync_storm import SyncEffect, SyncSecond
from analyzer.analysis.windows import WIDTH_NS
from analyzer.analysis.words import counted, duration, size
from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from analyzer.rules.service import references


@dataclass(frozen=True, slots=True)
class _Victim:
    """The operation that lost most time in seconds with a storm."""

    op: str
    calls: int
    storm_ns: int
    calm_ns: int

    @property
    def factor(self) -> float:
        return self.storm_ns / max(self.calm_ns, 1)


def check(case: Case) -> Iterator[Hit]:
    """One hit per server and run of seconds, one per server and client that commits in a loop alone."""
    labels = Labels.of(case)
    runs: dict[tuple[str, str], list[list[SyncSecond]]] = {}
    for row in case.rows(SyncSecond):
        kind = _kind(row, case.options)
        if kind is None:
            continue
        mine = runs.setdefault((row.endpoint, "" if kind == "storm" else row.top_client), [])
        if mine and kind == "storm" and row.start_ns - mine[-1][-1].start_ns <= 2 * WIDTH_NS:
            mine[-1].append(row)
        elif mine and kind == "alone":
            mine[0].append(row)
        else:
            mine.append([row])
    for (endpoint, client), found in sorted(runs.items()):
        for rows in found:
            if client:
                yield _alone(endpoint, client, rows, labels)
            else:
                yield _storm(endpoint, rows, _victim(case, endpoint), labels, case.options)


def _kind(row: SyncSecond, options: Mapping[str, int | float]) -> str | None:
    syncs = row.commits + row.stable_writes
    if syncs < options["syncs_per_second"]:
        return None
    interleaved = row.writers >= options["outstanding"] and syncs >= 3 * row.writers
    if row.peak >= options["outstanding"] or (row.clients >= 2 and row.peak >= 2) or interleaved:
        return "storm"
    alone = row.clients == 1 and row.commits >= options["syncs_per_second"]
    return "alone" if alone else None


def _victim(case: Case, endpoint: str) -> _Victim | None:
    """Compares seconds that surely had a storm's rate with those that surely had not."""
    rate, enough = case.options["syncs_per_second"], case.options["victim_calls"]
    sums: dict[tuple[str, bool], tuple[int, int]] = {}
    for row in case.rows(SyncEffect):
        storm, calm = row.syncs >= rate, row.syncs == 0 or 2 * row.syncs - 1 < rate
        if row.endpoint == endpoint and (storm or calm):
            count, total = sums.get((row.op, storm), (0, 0))
            sums[row.op, storm] = (count + row.count, total + row.sum_ns)
    victims = []
    for (op, storm), (count, total) in sorted(sums.items()):
        calm_count, calm_total = sums.get((op, False), (0, 0))
        if storm and count >= enough and calm_count >= enough:
            victims.append(_Victim(op, count, total // count, calm_total // calm_count))
    return max(victims, key=lambda v: v.calls * (v.storm_ns - v.calm_ns), default=None)


def _storm(
    endpoint: str,
    rows: list[SyncSecond],
    victim: _Victim | None,
    labels: Labels,
    options: Mapping[str, int | float],
) -> Hit:
    first_ns, last_ns = min(r.first_ns for r in rows), max(r.last_ns for r in rows)
    commits, stable = sum(r.commits for r in rows), sum(r.stable_writes for r in rows)
    clients, peak, writers = (max(getattr(r, n) for r in rows) for n in ("clients", "peak", "writers"))
    top = max(rows, key=lambda r: r.top_client_syncs)
    who = f"{labels.client(top.top_client)}"
    if clients > 1:
        who = f"{counted(clients, 'client')} (most by {who})"
    harmed = victim is not None and victim.factor >= options["victim_factor"] and (
        victim.storm_ns >= options["victim_ns"]
    )  # fmt: skip
    severity, effect = Severity.LOW, "no other operation is known to have been slowed down"
    if victim is not None and harmed:
        effect = (
            f"{victim.op} took {duration(victim.storm_ns)} on average instead of "
            f"{duration(victim.calm_ns)} ({victim.factor:.1f} times)"
        )
        grave = victim.factor >= 5 and victim.storm_ns >= 4 * options["victim_ns"]
        severity = Severity.HIGH if grave else Severity.MEDIUM
    busiest = max(r.commits + r.stable_writes for r in rows)
    return Hit(
        subject=server_subject(endpoint),
        message=(
            f"{who} sent {commits + stable:,} sync operations on {counted(writers, 'file')} to server "
            f"{endpoint} in {duration(last_ns - first_ns)}, up to {peak} at a time "
            f"({counted(commits, 'COMMIT')} and {counted(stable, 'stable WRITE')}): {effect}"
        ),
        evidence=references([rows[0].at_first, rows[-1].at_last]),
        when=(first_ns, last_ns),
        facts={
            "server": endpoint,
            "commits": commits,
            "stable_writes": stable,
            "busiest_per_second": busiest,
            "clients": clients,
            "files": writers,
            "peak_outstanding": peak,
            "duration_ns": last_ns - first_ns,
            "top_client": top.top_client,
            "victim_op": victim.op if victim is not None and harmed else "",
            "victim_factor": round(victim.factor, 2) if victim is not None and harmed else 1.0,
        },
        severity=severity,
    )


def _alone(endpoint: str, client: str, rows: list[SyncSecond], labels: Labels) -> Hit:
    commits = sum(r.commits for r in rows)
    first_ns, last_ns = rows[0].first_ns, max(r.last_ns for r in rows)
    label = labels.bare(client)
    busy = max(rows, key=lambda r: r.commits)
    stable = sum(r.stable_writes for r in rows)
    data = size(sum(r.bytes for r in rows))
    extra = f" and {counted(stable, 'stable WRITE')} of {data}" if stable else ""
    return Hit(
        subject=labels.subject(client, endpoint),
        message=(
            f"client {label} sent {counted(commits, 'COMMIT')}{extra} to server {endpoint} one after the "
            f"other, up to {busy.commits} in a second: each waits for stable storage"
        ),
        evidence=references([rows[0].at_first, rows[-1].at_last]),
        when=(first_ns, last_ns),
        facts={
            "client": client,
            "server": endpoint,
            "commits": commits,
            "stable_writes": stable,
            "busiest_per_second": busy.commits + busy.stable_writes,
            "peak_outstanding": max(r.peak for r in rows),
        },
        severity=Severity.LOW,
        remedy="Write larger pieces and call fsync() once per file instead of after each piece.",
    )


def _example(writers: int, times: int, step: float, stable: str, lasts: float = 0.004) -> str:
    """`writers` files, each synced `times` times, one sync every `step` seconds from 10 s on."""
    lines = []
    for i in range(writers * times):
        start = 10 + i * step
        word = "commit" if stable == "commit" else "write"
        rest = "0+0" if stable == "commit" else f"0+4096 {stable}"
        lines.append(f"{start:.6f}..{start + lasts:.6f} A {word} f{i % writers} {rest}")
    return "\n".join(lines)


RULE = Rule(
    id="sync-storm",
    title="Many synchronous writes at once",
    severity=Severity.MEDIUM,
    confidence=Confidence.HIGH,
    blame=Blame.APPLICATION,
    reads=(ClientRow, SyncSecond, SyncEffect),
    check=check,
    remedy=(
        "Don't let all ranks sync at once: stagger checkpoints, write fewer and larger shards, call "
        "fsync() once per file, or stage on node-local disk and copy in the background."
    ),
    references=("RFC 8881 section 18.3", "RFC 8881 section 18.32"),
    bad=(
        _example(8, 25, 0.002, "file_sync", 0.016),
        _example(8, 25, 0.002, "commit", 0.016),
        _example(1, 60, 0.002, "commit", 0.001),
    ),
    good=(
        # a log that is synced 20 times a second; small writes under a lock, one after the other
        _example(1, 60, 0.05, "file_sync"),
        _example(1, 200, 0.005, "file_sync", 0.001),
        # as many writes, unstable
        _example(8, 25, 0.002, "unstable", 0.016),
    ),
    exercised_by=frozenset({"write", "commit"}),
    follows_state=False,
    options={
        "syncs_per_second": 50,
        "outstanding": 4,
        "victim_calls": 20,
        "victim_factor": 2.0,
        "victim_ns": 5_000_000,
    },
)
