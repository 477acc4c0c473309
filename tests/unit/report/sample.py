"""A rich sample of one run, made by hand, and a hostile twin whose every name attacks the report.

The story: four clients and one server over 90 s. `trainer-b` waits 7.01 s for a lock of `trainer-a`;
two clients take turns on a second file; the server restarts at 40 s.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.analysis.clients import ClientRow
from analyzer.analysis.latency import LatencyRow, RateRow
from analyzer.analysis.locks import LockHold, LockWait
from analyzer.core.coverage import Coverage, Loss, Note
from analyzer.core.finding import Blame, Confidence, Finding, Judgement, Severity, Subject, Verdict
from analyzer.core.rule import Outcome
from analyzer.core.table import Tables
from analyzer.report.view import ReportView, build_view

S = 1_000_000_000
T0 = 1_796_091_646 * S + 650_749_000
ENDPOINT = "10.20.30.1:2049"

#: What a hostile network or file system may put into a name.
ATTACKS = (
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b]0;title\x07",
    "line one\nline two\r\n# heading",
    "\u202egpj.exe\u2066",
    "a|b`c*d_e[f](javascript:alert(1))",
    "]]><x/>&amp;\x00\x0b\ufffe",
    "'\"><img src=x onerror=alert(1)>",
    "z" * 5000,
    "e" + "\u0301" * 500,
    "@everyone https://evil.example www.evil.example #1",
    "[bold red]markup[/bold red]",
    "{{ 7*7 }}{% raw %}",
)


@dataclass(frozen=True)
class Names:
    """The names in the sample; every one of them must vanish under `--redact`."""

    capture: str = "incident-42.pcapng"
    path: str = "/export/train/data.db"
    path2: str = "/export/train/shards/index.lock"
    identities: tuple[str, ...] = (
        "Linux NFSv4.1 trainer-a.corp.example",
        "Linux NFSv4.1 trainer-b.corp.example",
        "Linux NFSv4.1 trainer-c.corp.example",
        "Linux NFSv4.1 gateway.corp.example",
    )
    labels: tuple[str, ...] = ("10.20.30.5", "10.20.30.7", "10.20.30.9", "2001:4860::17")
    owner: str = "open-owner-of-alice"
    extra: str = field(default="/export/only/in/text.bin")

    def secrets(self) -> tuple[str, ...]:
        """Everything that `--redact` has to hide, the host names and base names too."""
        hosts = tuple(word for identity in self.identities for word in identity.split() if "." in word[6:])
        parts = ("data.db", "index.lock", "trainer-b.corp.example", "10.20.30.1", "0x6b1c", "a1b2c3d4")
        return (
            self.capture,
            self.path,
            self.path2,
            *self.identities,
            *self.labels,
            self.owner,
            self.extra,
            *hosts,
            *parts,
        )


def hostile_names(attack: str) -> Names:
    """Names that all hold the attack."""
    return Names(
        capture=f"cap{attack}.pcap",
        path=f"/export/{attack}/a",
        path2=f"/export/{attack}/b",
        identities=tuple(f"Linux {attack} {i}" for i in range(4)),
        labels=tuple(f"{attack}-{i}" for i in range(4)),
        owner=f"owner {attack}",
        extra=f"/export/{attack}",
    )


def ref(names: Names, frame: int) -> str:
    """A frame of the sample's capture."""
    return f"{names.capture}#{frame}"


#: status, operation, first and last second
FAILURES = (
    ("DENIED", "LOCK", 2, 31),
    ("GRACE", "OPEN", 40, 52),
    ("DELAY", "OPEN", 60, 64),
    ("BADSESSION", "SEQUENCE", 40, 40),
)


def fill(tables: Tables, names: Names) -> None:
    """Write the sample's derived rows."""
    keys = [f"key-{i}-{identity}" for i, identity in enumerate(names.identities)]
    for i, key in enumerate(keys):
        address = names.labels[i]
        tables.of(ClientRow).append(
            ClientRow(
                key,
                names.labels[i],
                ENDPOINT,
                names.identities[i],
                (f"0x6b1c00000000000{i}",),
                (address,),
                (f"{address}:90{i}>{ENDPOINT}",),
                T0 + i * S,
                T0 + 90 * S - i * S,
                4000 - 700 * i,
            )
        )
    _locks(tables, names, keys)
    _service(tables, names, keys)
    tables.close()


def _locks(tables: Tables, names: Names, keys: list[str]) -> None:
    first = ("a1b2c3d4" * 4, names.path)
    second = ("ffee0011" * 4, names.path2)

    def hold(who: int, file: tuple[str, str], start: float, end: float | None, span: str) -> None:
        frame = round(start * 100)
        offset, length = map(int, span.split())
        tables.of(LockHold).append(
            LockHold(
                ENDPOINT,
                keys[who],
                names.owner,
                *file,
                offset,
                length,
                "write",
                T0 + round(start * S),
                None if end is None else T0 + round(end * S),
                "open" if end is None else "unlock",
                ref(names, frame),
                None if end is None else ref(names, frame + 40),
            )
        )

    def wait(who: int, holder: int, file: tuple[str, str], asked: float, *parts: float) -> None:
        held, queue, backoff = parts
        notified = queue > 0 or file != first
        total = held + queue + backoff
        tables.of(LockWait).append(
            LockWait(
                ENDPOINT,
                keys[who],
                names.owner,
                *file,
                0,
                100,
                "write",
                True,
                T0 + round(asked * S),
                T0 + round((asked + total) * S),
                T0 + round((asked + total) * S),
                1 if notified else 4,
                round(held * S),
                round(queue * S),
                round(backoff * S),
                notified,
                keys[holder],
                names.owner,
                T0 + round((asked + held) * S),
                tuple(ref(names, round((asked + d) * 100)) for d in (0, held, total)),
            )
        )

    hold(0, first, 1.2, 7.52, "0 100")
    wait(1, 0, first, 2.02, 5.50, 0, 1.51)
    hold(1, first, 9.03, 22.4, "0 100")
    hold(2, first, 3.0, 31.0, "4096 100")
    wait(0, 1, first, 12.0, 10.4, 0, 2.6)
    hold(0, first, 25.0, 39.9, "0 100")
    hold(0, first, 26.0, 36.0, "200 -1")
    wait(1, 0, first, 28.0, 11.9, 3.1, 0.4)
    hold(1, first, 43.4, None, "0 100")
    for turn in range(60):
        start = 45 + turn * 0.7
        hold(2 + turn % 2, second, start, start + 0.6, "0 -1")
        wait(2 + (turn + 1) % 2, 2 + turn % 2, second, start + 0.1, 0.5, 0, 0.1)


def _service(tables: Tables, names: Names, keys: list[str]) -> None:
    base = {
        "READ": 900,
        "WRITE": 2400,
        "GETATTR": 210,
        "LOCK": 700,
        "OPEN": 1100,
        "COMMIT": 48000,
        "CLOSE": 400,
    }
    for client in ("", *keys):
        for i, (op, micros) in enumerate(base.items()):
            count = (9000 - 1200 * i) // (1 if client == "" else 4)
            p50 = micros * 1000
            tables.of(LatencyRow).append(
                LatencyRow(
                    ENDPOINT,
                    client,
                    op,
                    count,
                    count // 60 if op in ("LOCK", "OPEN") else 0,
                    count * 65536 if op in ("READ", "WRITE") else 0,
                    p50,
                    p50 * 3,
                    p50 * 11,
                    p50 * 30,
                    p50 * 42,
                    ref(names, 1000 + i),
                )
            )
    for second in range(90):
        stall = 1 if 39 <= second <= 43 else 0
        for i, (op, micros) in enumerate(base.items()):
            mean = micros * 1000 * (14 if stall else 1) * (10 + (second * 7 + i * 3) % 9) // 10
            count = 4 if stall else 100 - 12 * i + (second * 13 + i * 5) % 20
            tables.of(RateRow).append(RateRow(T0 + second * S, S, op, "ok", count, mean, mean * 9))
        for status, op, low, high in FAILURES:
            if low <= second <= high:
                count = 1 + second % 4
                tables.of(RateRow).append(
                    RateRow(T0 + second * S, S, op, status, count, 700_000, 2_000_000)
                )


BLAME = {
    "lock-lost": Blame.CLIENT,
    "lock-long-wait": Blame.APPLICATION,
    "lock-polling": Blame.SERVER,
    "metadata-storm": Blame.APPLICATION,
    "server-restart": Blame.SERVER,
    "share-denied": Blame.APPLICATION,
}


def finding(
    names: Names, rule: str, severity: Severity, subject: Subject, title: str, *frames: int, **more: str
) -> Finding:
    at, span = (float(x) for x in more.get("when", "2.02 7.01").split())
    return Finding(
        rule=rule,
        severity=severity,
        confidence=Confidence.HIGH,
        subject=subject,
        title=title,
        evidence=tuple(ref(names, f) for f in frames),
        when=(T0 + round(at * S), T0 + round((at + span) * S)),
        explanation=more.get("explanation", ""),
        remedy=more.get("remedy", "Shorten the critical section, or set `locktimeout` in the application."),
        docs=f"docs/rules/{rule}.md",
        facts={"wait_ns": round(span * S), "path": names.path},
        blame=BLAME[rule],
    )


def findings_of(names: Names) -> list[Finding]:
    """Findings of all severities, one rule with many."""
    a, b, c, _ = names.labels

    first = Subject("client", "key-0-" + names.identities[0], a)
    third = Subject("client", "key-2-" + names.identities[2], c)
    findings = [
        finding(
            names,
            "lock-lost",
            Severity.CRITICAL,
            first,
            f"client {a} lost its write lock 0+100 on {names.path} in the restart of {ENDPOINT} at 40.10 s "
            "and wrote 3 times after it",
            *(4010, 4044, 4101),
            when="40.1 6.2",
            explanation=f"The reclaim was refused with NO_GRACE.\nThe writes went to {names.extra}.",
            remedy="Raise the grace period above the longest lease: `Grace_Period = 90;` in the NFSv4 "
            "block of /etc/ganesha/ganesha.conf, then restart the server.",
        ),
        finding(
            names,
            "lock-long-wait",
            Severity.HIGH,
            Subject("client", "key-1-" + names.identities[1], b),
            f"client {b} waited 7.01 s for a write lock on {names.path}: 5.50 s behind client {a}'s hold, "
            "1.51 s of its own back-off after the release",
            *(202, 752, 903),
        ),
        finding(
            names,
            "server-restart",
            Severity.HIGH,
            Subject("server", ENDPOINT),
            f"server {ENDPOINT} restarted between 39.9 s and 40.1 s: 2 unstable writes were not committed",
            *(3990, 4010),
            when="39.9 0.2",
            remedy="Find out why it restarted: `journalctl -u nfs-ganesha`.",
        ),
        finding(
            names,
            "share-denied",
            Severity.LOW,
            third,
            f"client {c} was refused 4 opens of {names.path2} for 5.00 s",
            6001,
            when="60 5",
        ),
        finding(
            names,
            "metadata-storm",
            Severity.INFO,
            third,
            f"client {c} sent 12,400 GETATTR in 90.0 s",
            *(11, 12, 13, 14, 15),
            when="0 90",
        ),
    ]
    findings += [
        finding(
            names,
            "lock-polling",
            Severity.MEDIUM,
            Subject("file", f"ffee001{n:x}" * 4, names.path2),
            f"client {c} polled {n + 2} times for a lock on {names.path2} that had been free for {n}.5 s",
            7000 + n,
            when=f"{45 + n} {n + 0.5}",
        )
        for n in range(14)
    ]
    return findings


def outcome(names: Names) -> Outcome:
    """The findings, and judgements of all four verdicts."""
    findings = findings_of(names)
    findings.sort(key=Finding.sort_key)
    counted = {f.rule for f in findings}
    judgements = [
        Judgement(r, Verdict.VIOLATED, sum(f.rule == r for f in findings)) for r in sorted(counted)
    ]
    judgements += [
        Judgement(r, Verdict.UPHELD) for r in ("conflicting-grants", "deadlock", "lease-gap", "stalls")
    ]
    judgements += [
        Judgement("recall-slow", Verdict.NOT_EXERCISED, reason="no recall operation was seen"),
        Judgement("tiny-io", Verdict.UNKNOWN, reason=f"the rule failed: KeyError: {names.path}"),
    ]
    return Outcome(tuple(findings), tuple(sorted(judgements, key=lambda j: j.rule)))


def coverage(names: Names, lossy: bool = True) -> Coverage:
    """What was seen; with `lossy` also what was lost."""
    notes = [Note("12 SMB connections were seen and not judged", count=12)]
    if lossy:
        notes.append(
            Note(
                f"120 frames of {names.capture} are cut at 160 bytes",
                Loss.SNAPLEN,
                120,
                "capture again with `-s 0`",
                (ref(names, 17),),
            )
        )
        notes.append(Note("8 TCP segments are missing", Loss.GAP, 8))
    seen = {"frames": 48211, "operations": 31400, "clients": 4}
    return Coverage(seen, (f"/var/tmp/{names.capture}",), T0, T0 + 90 * S, tuple(notes))


def sample_view(names: Names | None = None, *, lossy: bool = True, redact: bool = False) -> ReportView:
    """The sample as a view."""
    names = names or Names()
    tables = Tables()
    fill(tables, names)
    return build_view(
        outcome(names), coverage(names, lossy), tables, version="0.1.0", title=names.capture, redact=redact
    )


def empty_view() -> ReportView:
    """An input in which nothing was found and nothing was seen."""
    return build_view(Outcome((), ()), Coverage(), Tables(), version="0.1.0", title="empty.pcap")
