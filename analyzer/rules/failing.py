"""Sentences and hits for rules that report failures by status."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.analysis.clients import Labels, server_subject
from analyzer.analysis.failures import Failing
from analyzer.analysis.words import counted, duration, tally, times
from analyzer.core.finding import Hit, Severity

_NAMED = 3


def who(group: Failing, labels: Labels) -> str:
    """ "client 10.0.0.7", "2 clients (10.0.0.7, 10.0.0.8)", "9 clients (most often 10.0.0.7, twice)"."""
    clients = group.by("client")
    first = next(iter(clients))
    if len(clients) == 1:
        return labels.client(first)
    if len(clients) <= _NAMED and None not in clients:
        return f"{counted(len(clients), 'client')} ({', '.join(labels.bare(c) for c in clients)})"
    most = f" (most often {labels.bare(first)}, {times(clients[first])})" if first is not None else ""
    return f"{counted(len(clients), 'client')}{most}"


def what(group: Failing) -> str:
    """ "BADSLOT 3 times on SEQUENCE", or "5 failures (3 BAD_STATEID, 2 OLD_STATEID) on 3 READ, 2 WRITE"."""
    statuses, ops = group.by("status"), group.by("op")
    on = next(iter(ops)) if len(ops) == 1 else tally(ops)
    if len(statuses) == 1:
        return f"{next(iter(statuses))} {times(group.count)} on {on}"
    return f"{group.count} failures ({tally(statuses, 5)}) on {on}"


def failing_hit(
    group: Failing,
    labels: Labels,
    meaning: str,
    *,
    severity: Severity | None = None,
    remedy: str | None = None,
    explanation: str = "",
    facts: Mapping[str, int | float | str] | None = None,
) -> Hit:
    """One hit for one server's failures. The sentence ends with ": `meaning`"."""
    clients = list(group.by("client"))
    first, last = group.when
    span = f" over {duration(last - first)}" if group.count > 1 else ""
    single = len(clients) == 1
    return Hit(
        subject=labels.subject(clients[0], group.endpoint) if single else server_subject(group.endpoint),
        message=f"{who(group, labels)} got {what(group)} from server {group.endpoint}{span}: {meaning}",
        evidence=group.evidence,
        when=(first, last),
        explanation=explanation,
        severity=severity,
        remedy=remedy,
        facts={"count": group.count, "clients": len(clients), "span_ns": last - first, **(facts or {})},
    )
