"""The verdict in one paragraph of plain words: the worst culprit, how much more, what isn't known."""

from __future__ import annotations

from collections import Counter

from analyzer.core.coverage import Coverage, Loss
from analyzer.core.finding import Finding, Judgement, Severity, Verdict
from analyzer.core.rule import Outcome
from analyzer.report.text import counted, duration, number, plural, visible

_NAMED = 3
_SECOND = 145  # characters of the second finding


def paragraph(outcome: Outcome, coverage: Coverage) -> str:
    """The whole verdict. It never calls an input clean that nobody could judge."""
    sentences = [_main(outcome, coverage), *_rest(outcome), *_unknown(outcome), *incomplete(coverage)]
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
    known = [n for n in ("operations", "clients") if coverage.seen.get(n)]
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
    effect = (
        "so much is missing that nothing which follows state over time is judged"
        if coverage.severe
        else "confidence is lowered"
    )
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
