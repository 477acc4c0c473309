"""The verdict in one paragraph of plain words: the worst culprit, how much more, what isn't known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analyzer.core.coverage import Coverage, Loss
from analyzer.core.finding import Blame, Finding, Judgement, Severity, Verdict
from analyzer.core.rule import Outcome
from analyzer.report.text import counted, duration, number, plural, visible

_NAMED = 3
_SECOND = 145  # characters of the second finding


def paragraph(outcome: Outcome, coverage: Coverage) -> str:
    """The whole verdict. It never calls an input clean that nobody could judge."""
    sentences = [
        _main(outcome, coverage),
        *_rest(outcome),
        *_blamed(outcome.findings),
        *_unknown(outcome),
        *incomplete(coverage),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _main(outcome: Outcome, coverage: Coverage) -> str:
    if outcome.findings:
        worst = outcome.findings[0]
        title = visible(worst.title, 400).strip().rstrip(".")
        return f"{title[:1].upper()}{title[1:]} ({worst.severity}, {worst.confidence} confidence)."
    counts = Counter(j.verdict for j in outcome.judgements)
    if not counts[Verdict.UPHELD]:
        if counts[Verdict.UNKNOWN]:
            return "Nothing could be judged: this is no all-clear."
        return "Nothing to judge: the input holds nothing that a rule looks at."
    seen = _seen(coverage)
    fine = (
        f"{plural(counts[Verdict.UPHELD], 'rule')} looked{f' at {seen}' if seen else ''} and found no fault"
    )
    if counts[Verdict.UNKNOWN] or coverage.degraded:
        return f"{fine}, but this is no all-clear."
    return f"{fine}."


def _seen(coverage: Coverage) -> str:
    known = [n for n in ("operations", "clients", "objects") if coverage.seen.get(n)]
    parts = [plural(coverage.seen[n], n[:-1]) for n in known]
    whole = all(note.loss is not Loss.FILTERED for note in coverage.notes)
    if whole and coverage.first_ns is not None and coverage.last_ns is not None and parts:
        parts[-1] += f" over {duration(coverage.last_ns - coverage.first_ns)}"
    return " of ".join(parts)


def _rest(outcome: Outcome) -> list[str]:
    """How many findings there are in all, and the worst title of the next rules."""
    if len(outcome.findings) < 2:
        return []
    counts = Counter(f.severity for f in outcome.findings)
    levels = ", ".join(f"{number(counts[s])} {s}" for s in sorted(Severity, reverse=True) if counts[s])
    rules = len({f.rule for f in outcome.findings})
    return [
        *_also(outcome),
        f"{plural(len(outcome.findings), 'finding')} of {plural(rules, 'rule')} in all: {levels}.",
    ]


def _also(outcome: Outcome) -> list[str]:
    """The worst finding of the next rule, where it is as grave as the first, or high at least."""
    worst = outcome.findings[0]
    least = max(min(worst.severity, Severity.HIGH), Severity.MEDIUM)
    for finding in outcome.findings:
        if finding.severity >= least and finding.rule != worst.rule:
            return [f"Also: {_shortened(finding.title)}"]
    return []


def _shortened(title: str) -> str:
    """A title with its full stop, or the beginning of a long one, up to the end of a word."""
    text = visible(title, 700).strip().rstrip(".")
    if len(text) <= _SECOND:
        return f"{text}."
    return f"{text[:_SECOND].rpartition(' ')[0].rstrip(',;:')} …"


def _blamed(findings: Sequence[Finding]) -> list[str]:
    """Where to look first: at what most of the gravest findings point, then at the next, of a finding that
    is medium at least."""
    if not findings:
        return []
    worst = findings[0].severity
    gravest = [f for f in findings if f.severity is worst]
    ranked = _ranked(gravest)
    first, count = ranked[0]
    share = f"{number(count)} of the {number(len(gravest))} {worst} findings"
    sentence = f"Look first at {_place(first, gravest)}"
    if len(gravest) > 1:
        sentence += f" (all {number(count)} {worst} findings)" if count == len(gravest) else f" ({share})"
    below = max((f.severity for f in findings if f.severity < worst), default=Severity.INFO)
    lesser = [f for f in findings if f.severity is below and below >= Severity.MEDIUM]
    for blame, group in [(b, gravest) for b, _ in ranked[1:]] + [(b, lesser) for b, _ in _ranked(lesser)]:
        if blame is not first:
            return [f"{sentence}, then at {_place(blame, group)}."]
    return [f"{sentence}."]


def _ranked(findings: Sequence[Finding]) -> list[tuple[Blame, int]]:
    """The most frequent first; of equals that of the worst finding."""
    return Counter(f.blame for f in findings).most_common()


def _place(blame: Blame, findings: Sequence[Finding]) -> str:
    """ "server 10.0.0.1:2049", "the clients", "the network to client 10.0.0.7", "the application"."""
    subjects = {f.subject for f in findings if f.blame is blame}
    only = subjects.pop() if len(subjects) == 1 else None
    if only is not None and (
        only.kind == blame.value or (blame is Blame.NETWORK and only.kind == "client")
    ):
        label = visible(str(only))
        name = label if label.startswith(f"{only.kind} ") else f"{only.kind} {label}"
        return f"the network to {name}" if blame is Blame.NETWORK else name
    several = sum(subject.kind == blame.value for subject in subjects) > 1
    return f"the {blame}s" if several else f"the {blame}"


def _unknown(outcome: Outcome) -> list[str]:
    unknown: list[Judgement] = [j for j in outcome.judgements if j.verdict is Verdict.UNKNOWN]
    if not unknown:
        return []
    names = ", ".join(j.rule for j in unknown[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return [f"{plural(len(unknown), 'rule')} could not be judged ({names}{more})."]


def incomplete(coverage: Coverage) -> list[str]:
    """One sentence if answers are incomplete: what was lost and what that does to the answers."""
    if not coverage.degraded:
        return []
    effect = "confidence is lowered" if coverage.doubtful else "what could not be read was not judged"
    if coverage.blind:
        effect = "so much is missing that nothing which follows state over time is judged"
    elif coverage.severe:
        effect += ", and what is not found may have been missed"
    lost = losses(coverage)
    return [f"Answers are incomplete{f' ({lost})' if lost else ''}: {effect}."]


def losses(coverage: Coverage) -> str:
    """`120 truncated frames, lost TCP segments`: what coverage lost, each kind of loss once."""
    counts: Counter[Loss] = Counter()
    for note in coverage.notes:
        if note.loss is not None:
            counts[note.loss] += note.count
    counting = {Loss.SNAPLEN, Loss.GAP, Loss.UNDECODED, Loss.UNMATCHED}
    return ", ".join(counted(n, k.value) if n and k in counting else k.value for k, n in counts.items())


def worst(findings: tuple[Finding, ...]) -> Severity | None:
    """The severity of the worst finding, None if there is none."""
    return max((f.severity for f in findings), default=None)
