"""What it checks: each tenant works alone first, then together with the others, several rounds each.
Reported is a tenant that is slower together by `slowdown` or more, with the whole 95 % interval of a
bootstrap over the rounds above that. The sentence names the tenant whose share grew most at its cost, and
says whether all together moved more than the fastest alone: if they didn't, more bandwidth won't help, as
something else (locks, metadata, seeks, a queue) is what is short.

Why it matters: sharing costs speed; how much, and who pays, decides where a job may run.

When it is wrong: if the storage was in use by others meanwhile. Several rounds and the interval show that
as a wide interval, and then nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.analysis.tenancy import TenantRow
from analyzer.analysis.words import duration, size
from analyzer.core.errors import NotExercisedError
from analyzer.core.finding import Blame, Confidence, Hit, Severity, Subject
from analyzer.core.rule import Case, Rule

#: Together they moved no more than the fastest alone, give or take.
_NO_MORE = 1.1


def check(case: Case) -> Iterator[Hit]:
    """One hit per slowed tenant."""
    rows = list(case.rows(TenantRow))
    if not any(row.slowdown_high for row in rows):
        raise NotExercisedError("no tenant ran at least two rounds alone and two with others")
    grown = max(rows, key=lambda row: row.share_together - row.share_solo)
    for row in rows:
        if row.slowdown_low >= case.options["slowdown"]:
            yield _hit(row, grown)


def _hit(row: TenantRow, grown: TenantRow) -> Hit:
    gained = grown.share_together - grown.share_solo
    by = f" beside {grown.tenant}" if grown.tenant != row.tenant and gained > 0.05 else " beside the others"
    more = row.total_together > _NO_MORE * row.best_solo
    return Hit(
        subject=Subject("tenant", row.tenant),
        message=(
            f"tenant {row.tenant} is {row.slowdown:.1f} times slower{by} "
            f"(95 %: {row.slowdown_low:.1f} to {row.slowdown_high:.1f})"
        ),
        evidence=row.evidence,
        when=(row.at_ns, row.at_ns),
        explanation=(
            f"Alone {_speed(row.speed_solo, row.unit)}, together {_speed(row.speed_together, row.unit)}; "
            f"its slowest percent of calls went from {duration(row.latency_ns_p99_solo)} to "
            f"{duration(row.latency_ns_p99)}. All together: {_speed(row.total_together, row.unit)}, the "
            f"fastest alone: {_speed(row.best_solo, row.unit)}: "
            + ("they share what there is." if more else "it isn't bandwidth that is short.")
        ),
        facts={
            "slowdown_permille": round(row.slowdown * 1000),
            "slowdown_low_permille": round(row.slowdown_low * 1000),
            "slowdown_high_permille": round(row.slowdown_high * 1000),
            "jain_permille": round(row.jain * 1000),
            "total_grew": int(more),
            "aggressor": grown.tenant if gained > 0.05 else "",
        },
    )


def _speed(per_second: float, unit: str) -> str:
    return f"{size(round(per_second))}/s" if unit == "bytes" else f"{per_second:,.0f} calls/s"


def _rounds(solo_ms: int, together_ms: int) -> str:
    """An example: two tenants, two rounds each, every round ten calls of this length."""
    lines, at = ["workload tenants"], 0
    for phase, ms in (("solo", solo_ms), ("together", together_ms)):
        for number in (1, 2):
            for tenant in "xy":
                own = ms if tenant == "x" else solo_ms
                for call in range(4):
                    start = at + call * own
                    lines.append(
                        f"{start / 1000:.3f}..{(start + own) / 1000:.3f} {tenant.upper()} read f 0+100 "
                        f"tenant={tenant} phase={phase} round={number} bytes=100"
                    )
                if phase == "solo":
                    at += 1000
            at += 10_000
    return "\n".join(lines)


RULE = Rule(
    id="tenant-slowed",
    title="A tenant is slowed down by others",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.SERVER,
    reads=(TenantRow,),
    check=check,
    remedy=(
        "Give the tenants limits of their own where the storage has them (io.max of cgroups, QoS of the "
        "server, separate MDS or pools), or move the one that takes most to another time or storage."
    ),
    references=("Efron: Bootstrap Methods, Annals of Statistics 7(1), 1979",),
    bad=(_rounds(10, 60),),
    good=(_rounds(10, 11),),
    exercised_by=frozenset({"workload tenants"}),
    follows_state=False,
    options={"slowdown": 1.5},
    witness="client",
    promise="isolation",
)
