"""Findings, verdicts and exit codes: the one thing that every output is made of."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


class Severity(enum.IntEnum):
    """How bad it is for the user's data or time if the finding is true."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @classmethod
    def parse(cls, text: str) -> Severity:
        """`"high"` → `Severity.HIGH`; raises `KeyError` for an unknown name."""
        return cls[text.upper()]

    def __str__(self) -> str:
        return self.name.lower()


class Confidence(enum.IntEnum):
    """How sure the tool is. An incomplete input lowers it (`lowered`)."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2

    def lowered(self) -> Confidence:
        """One step down, never below LOW."""
        return Confidence(max(0, self - 1))

    def __str__(self) -> str:
        return self.name.lower()


class Blame(enum.StrEnum):
    """Where to look first for the cause. It is no proof: the remedy says how to make sure."""

    CLIENT = "client"  # the client's host, kernel or mount
    SERVER = "server"  # the server, its storage or its software
    NETWORK = "network"  # what lies between the two, firewalls too
    APPLICATION = "application"  # the programs that use the files
    CONFIGURATION = "configuration"  # a setting that works as set and is set wrong


class Verdict(enum.StrEnum):
    """What a rule says of the input. Silence is never "ok": a rule that had nothing to look at is
    *not exercised*, one that could not be judged is *unknown*."""

    VIOLATED = "violated"
    UPHELD = "upheld"
    NOT_EXERCISED = "not exercised"
    UNKNOWN = "unknown"


class ExitCode(enum.IntEnum):
    """Exit codes of the command line."""

    CLEAN = 0
    FINDINGS = 1  # at or above --fail-on
    USAGE = 2  # bad usage or input
    NOTHING = 3  # nothing to check
    UNKNOWN = 4  # something that was asked could not be judged


@dataclass(frozen=True, slots=True)
class Subject:
    """Who or what a finding is about. `kind` is client, server, file, session, connection, operation,
    capture, ...; `name` is the stable id within the input; `label` is what a person reads."""

    kind: str
    name: str
    label: str = ""

    def __str__(self) -> str:
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Change:
    """An edit of the input that mends a finding: what stands at `path` of the object `target` (its
    evidence without a path) becomes `value`; None removes it. It may hold text of the input that no report
    may show."""

    target: str
    path: tuple[str | int, ...]
    value: object = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule yields. The engine adds id, severity, confidence and remedy.

    `message` is one sentence that names the culprit and the number. `evidence` holds references
    (`file#frame`), never copies. `when` is (first, last) in ns. `facts` holds the numbers of the
    sentence under stable names with the unit last (`wait_ns`, `refused`), for machines and tests.
    `severity` overrides the rule's where the number decides (a wait of minutes).
    `blame` overrides the rule's where the hit knows better (a server that answered nobody).
    `complete` is False when the hit leans on something that may have been missed on this input.
    `leans_on` are the identity keys of the clients that must have been seen without a gap during all of
    `when` for the hit to be true: the engine withholds it where the input has such a gap. None stands
    for every client if the rule follows state, and for none if each hit stands on its frames alone.
    `key` tells hits on one subject apart where evidence moves between runs (lines of a file).
    `changes` mend the input, all together.
    """

    subject: Subject
    message: str
    evidence: tuple[str, ...] = ()
    when: tuple[int, int] | None = None
    explanation: str = ""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    severity: Severity | None = None
    blame: Blame | None = None
    remedy: str | None = None
    complete: bool = True
    leans_on: tuple[str, ...] | None = None
    key: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated rule on one subject, as every report shows it."""

    rule: str
    severity: Severity
    confidence: Confidence
    subject: Subject
    title: str
    evidence: tuple[str, ...]
    when: tuple[int, int] | None
    explanation: str
    remedy: str
    docs: str
    facts: Mapping[str, int | float | str]
    blame: Blame
    verdict: Verdict = Verdict.VIOLATED
    key: str = ""
    changes: tuple[Change, ...] = ()

    @property
    def fingerprint(self) -> str:
        """16 hex digits, stable over runs on the same input: rule, subject, and key or first evidence."""
        place = [self.key] if self.key else self.evidence[:1]
        parts = [self.rule, self.subject.kind, self.subject.name, *place]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def sort_key(self) -> tuple[int, int, int, str, str, str]:
        """Worst first, then surest, then earliest: a cause comes before what it brought about."""
        first = self.when[0] if self.when else 0
        return (-self.severity, -self.confidence, first, self.rule, self.subject.name, self.title)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of one rule over the whole input. `reason` says why it is unknown or not exercised."""

    rule: str
    verdict: Verdict
    findings: int = 0
    reason: str = ""
