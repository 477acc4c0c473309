"""Rules, folds, and the engine that runs them.

A *fold* (in `analyzer.analysis`) walks the operations once and writes derived tables. A *rule* (in
`analyzer.rules` and `k8s.rules`) reads typed rows and yields hits: those of derived tables, or of the
inventory of objects. Both are found by walking their packages: a module with a `RULE`, a module of
`analyzer.analysis` that has a `FOLD`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from analyzer.core.coverage import Coverage, Gaps
from analyzer.core.errors import InputError, NotExercisedError, PremiseError
from analyzer.core.finding import Blame, Confidence, Finding, Hit, Judgement, Severity, Verdict
from analyzer.core.operations import select
from analyzer.core.table import Tables

Row = TypeVar("Row")
Item = TypeVar("Item")


class Walk(Protocol):
    """A fold that has begun."""

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next batch in stream order, with the rows and columns that the fold declared only."""

    def finish(self) -> None:
        """Write what is still open; comes once, at the end of the input."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Declares a fold: which columns it reads of which operations, and which row types it writes.

    `kinds` empty means every operation; with `failed` operations whose status isn't ok come too,
    whatever their kind. `start` gets the tables to write to and returns the walk. `witness` says whose
    operations it understands: `wire` (a capture) or `client` (workers that made the calls).
    """

    name: str
    reads: tuple[str, ...]
    produces: tuple[type[Any], ...]
    start: Callable[[Tables], Walk]
    kinds: frozenset[str] = frozenset()
    failed: bool = False
    witness: str = "wire"


class Rows(Protocol):
    """Typed rows that rules read: derived tables of operations, or an inventory of objects."""

    def of(self, row_type: type[Row]) -> Iterable[Row]:
        """The rows of that type, in a stable order; none if nobody made any."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule is given: rows, coverage, and its options (default or `--set`)."""

    tables: Rows
    coverage: Coverage
    options: Mapping[str, int | float] = field(default_factory=dict)

    def rows(self, row_type: type[Row]) -> Iterator[Row]:
        """The rows of one type."""
        return iter(self.tables.of(row_type))


@dataclass(frozen=True, slots=True)
class Rule:
    """All there is to know about a rule. The documentation page is generated from the docstring of the
    module that declares it: what it checks, why it matters, when it is wrong.

    * `id`: lower case with hyphens, as the field would say it: `lock-long-wait`.
    * `blame`: where to look first for the cause if it fires: client, server, network, ...
    * `reads`: the row types that `check` reads.
    * `exercised_by`: kinds of operations or objects; if none was seen the verdict is *not exercised*.
      Operations of workers also count as `workload NAME`.
    * `needs`: kinds of objects besides those of `exercised_by` that `check` looks at; if one may not be
      listed, finding nothing means nothing.
    * `follows_state`: True if a hit leans on having seen *everything* (an absent message, a lock table
      over time, an object that nobody refers to). Such a rule is *unknown* on an input that lost much.
      False if each hit stands on the evidence it cites alone.
    * `options`: thresholds with their defaults, units last in their names; `--set ID.NAME=VALUE`.
    * `bad`, `good`: the rule fires on each of `bad`, on none of `good`. Examples are in the notation for
      rules about operations, in YAML for rules about objects.
    * `about`: what `exercised_by` counts: `operation` or `object`.
    * `witness`: whose operations it judges: `wire` or `client`.
    * `promise`: which property of the mount a hit contradicts (`analyzer.analysis.expectation`), if any.
    """

    id: str
    title: str
    severity: Severity
    confidence: Confidence
    blame: Blame
    reads: tuple[type[Any], ...]
    check: Callable[[Case], Iterable[Hit]]
    remedy: str
    references: tuple[str, ...]
    bad: tuple[str, ...]
    good: tuple[str, ...]
    exercised_by: frozenset[str] = frozenset()
    follows_state: bool = True
    options: Mapping[str, int | float] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    about: Literal["operation", "object"] = "operation"
    module: str = ""
    witness: str = "wire"
    promise: str = ""

    @property
    def documentation(self) -> str:
        """The docstring of the module that declares the rule."""
        return inspect.getdoc(inspect.getmodule(self.check)) or ""


def discover(package: ModuleType, attribute: str, kind: type[Item]) -> list[Item]:
    """Every `attribute` of type `kind` in the modules below `package`, in order of module name."""
    found = []
    for info in sorted(
        pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda i: i.name
    ):
        value = getattr(importlib.import_module(info.name), attribute, None)
        if isinstance(value, kind):
            found.append(value)
    return found


def run_folds(batches: Iterable[pa.RecordBatch], folds: Sequence[Fold], tables: Tables) -> Counter[str]:
    """One pass over the operations; returns how many operations of each kind there were, and of each
    workload as `workload NAME`."""
    walks = [(fold, fold.start(tables)) for fold in folds]
    kinds: Counter[str] = Counter()
    for batch in batches:
        kinds.update(_counted(batch.column("kind")))
        witness = "client" if "workload" in batch.schema.names else "wire"
        if witness == "client":
            named = _counted(batch.column("workload"))
            kinds.update({f"workload {name}": count for name, count in named.items()})
        for fold, walk in walks:
            if fold.witness != witness:
                continue
            chosen = select(batch, fold.kinds, fold.failed, fold.reads)
            if chosen is not None:
                walk.feed(chosen)
    for _, walk in walks:
        walk.finish()
    tables.close()
    return kinds


def _counted(column: pa.DictionaryArray) -> dict[str, int]:
    """How many rows of a text column hold each text."""
    codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(column.dictionary)).tolist()
    words = column.dictionary.to_pylist()
    return {word: count for word, count in zip(words, counts, strict=True) if count}


def folds_for(rules: Iterable[Rule], folds: Sequence[Fold], others: Iterable[type[Any]] = ()) -> list[Fold]:
    """The folds that write what the rules (and `others`) read; raises `LookupError` if nobody writes a
    row type that a rule reads."""
    producers: dict[type[Any], list[Fold]] = {}
    for fold in folds:
        for row_type in fold.produces:
            producers.setdefault(row_type, []).append(fold)
    needed: dict[str, Fold] = {}
    for rule in rules:
        for row_type in rule.reads:
            if row_type not in producers:
                raise LookupError(f"rule {rule.id} reads {row_type.__name__}: no fold produces it")
            needed |= {fold.name: fold for fold in producers[row_type]}
    for row_type in others:
        needed |= {fold.name: fold for fold in producers.get(row_type, ())}
    return list(needed.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engine returns: findings worst first, and one judgement per rule. `withheld` are those
    that the input is too incomplete for: they may be true, and nobody may be accused on their ground."""

    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    withheld: tuple[Finding, ...] = ()


def judge(
    rules: Iterable[Rule],
    tables: Rows,
    coverage: Coverage,
    kinds: Mapping[str, int],
    options: Mapping[str, Mapping[str, int | float]] | None = None,
) -> Outcome:
    """Run the rules over the rows.

    A rule that raises is *unknown* with the reason as its evidence; it never takes the others down.
    """
    findings: list[Finding] = []
    withheld: list[Finding] = []
    judgements: list[Judgement] = []
    gaps = Gaps(coverage.gaps)
    for rule in rules:
        own = {**rule.options, **(options or {}).get(rule.id, {})}
        judgement, hits = _judge_one(rule, Case(tables, coverage, own), kinds)
        doubtful = [hit for hit in hits if _may_be_refuted(rule, hit, gaps, coverage.blind)]
        if doubtful:
            judgement = _with_doubt(judgement, doubtful)
            hits = [hit for hit in hits if not _may_be_refuted(rule, hit, gaps, coverage.blind)]
            withheld.extend(_finding(rule, hit, coverage) for hit in doubtful)
        judgements.append(judgement)
        findings.extend(_finding(rule, hit, coverage) for hit in hits)
    findings.sort(key=Finding.sort_key)
    withheld.sort(key=Finding.sort_key)
    judgements.sort(key=lambda j: j.rule)
    return Outcome(tuple(findings), tuple(judgements), tuple(withheld))


def _may_be_refuted(rule: Rule, hit: Hit, gaps: Gaps, blind: bool) -> bool:
    """Whether frames that could tell otherwise were lost while the hit built up."""
    if hit.leans_on is None:
        return rule.follows_state and gaps.within(hit.when, None) is not None
    return bool(hit.leans_on) and (blind or gaps.within(hit.when, hit.leans_on) is not None)


def _with_doubt(judgement: Judgement, doubtful: Sequence[Hit]) -> Judgement:
    left = judgement.findings - len(doubtful)
    count = "1 finding is" if len(doubtful) == 1 else f"{len(doubtful)} findings are"
    reason = (
        f"{count} withheld, because frames that may tell otherwise were lost meanwhile: what is left looks"
        f" as if {doubtful[0].message}"
    )
    verdict = Verdict.VIOLATED if left else Verdict.UNKNOWN
    return Judgement(judgement.rule, verdict, left, reason)


def _judge_one(rule: Rule, case: Case, kinds: Mapping[str, int]) -> tuple[Judgement, list[Hit]]:
    unseen = sorted(coverage_reason for kind, coverage_reason in case.coverage.unseen.items()
                    if kind in rule.needs or kind in rule.exercised_by)  # fmt: skip
    if unseen and rule.follows_state:
        return Judgement(rule.id, Verdict.UNKNOWN, reason=unseen[0]), []
    if rule.exercised_by and not any(kinds.get(kind) for kind in rule.exercised_by):
        if unseen:
            return Judgement(rule.id, Verdict.UNKNOWN, reason=unseen[0]), []
        reason = f"no {', '.join(sorted(rule.exercised_by))} {rule.about} was seen"
        if case.coverage.severe:  # there may have been some in what is missing
            reason += ", and too much of the traffic is missing to say that there was none"
            return Judgement(rule.id, Verdict.UNKNOWN, reason=reason), []
        return Judgement(rule.id, Verdict.NOT_EXERCISED, reason=reason), []
    if rule.follows_state and case.coverage.blind:
        reason = "too much of the traffic is missing to follow state over time"
        return Judgement(rule.id, Verdict.UNKNOWN, reason=reason), []
    try:
        hits = list(rule.check(case))
    except NotExercisedError as error:
        return Judgement(rule.id, Verdict.NOT_EXERCISED, reason=str(error)), []
    except PremiseError as error:
        return Judgement(rule.id, Verdict.UNKNOWN, reason=str(error)), []
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"the rule failed: {type(error).__name__}: {error} ({place.name}, line {place.lineno})"
        return Judgement(rule.id, Verdict.UNKNOWN, reason=reason), []
    if hits:
        return Judgement(rule.id, Verdict.VIOLATED, findings=len(hits)), hits
    if unseen:
        return Judgement(rule.id, Verdict.UNKNOWN, reason=f"nothing found, but {unseen[0]}"), []
    if case.coverage.severe:
        return Judgement(rule.id, Verdict.UNKNOWN, reason="nothing found in what could be read"), []
    return Judgement(rule.id, Verdict.UPHELD), []


def _finding(rule: Rule, hit: Hit, coverage: Coverage) -> Finding:
    confidence = rule.confidence
    if coverage.doubtful:
        confidence = confidence.lowered()
    if not hit.complete:
        confidence = confidence.lowered()
    return Finding(
        rule=rule.id,
        severity=rule.severity if hit.severity is None else hit.severity,
        confidence=confidence,
        subject=hit.subject,
        title=hit.message,
        evidence=hit.evidence,
        when=hit.when,
        explanation=hit.explanation,
        remedy=hit.remedy or rule.remedy,
        docs=f"docs/rules/{rule.id}.md",
        facts=dict(hit.facts),
        blame=rule.blame if hit.blame is None else hit.blame,
        key=hit.key,
        changes=hit.changes,
    )


def parse_options(settings: Iterable[str], rules: Iterable[Rule]) -> dict[str, dict[str, int | float]]:
    """`["lock-long-wait.wait_ns=5000000000"]` → `{"lock-long-wait": {"wait_ns": 5000000000}}`.

    Raises `InputError` naming what is known if the rule or the option isn't, or the value is no amount.
    """
    known = {rule.id: rule for rule in rules}
    chosen: dict[str, dict[str, int | float]] = {}
    for setting in settings:
        target, equals, text = setting.partition("=")
        rule_id, _, name = target.rpartition(".")
        if not equals or rule_id not in known or name not in known[rule_id].options:
            raise InputError(f"--set {setting}: {_no_option(target, known)}")
        try:
            chosen.setdefault(rule_id, {})[name] = _value(name, text)
        except ValueError as error:
            raise InputError(f"--set {setting}: {error}") from None
    return chosen


_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d+)?)\s*([a-zµ]*)")


def _value(name: str, text: str) -> int | float:
    """The value of the option `name`: `20` → 20; where the name ends in a unit of time also `20s`, `150ms`,
    `2min`, told in that unit. Raises `ValueError` with what would be right."""
    own = name.rpartition("_")[2]
    timed = own in ("ns", "s")
    wanted = f"a number in {own}, or a time such as 20s, 150ms, 2min" if timed else "a number"
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or (match[2] and (not timed or match[2] not in _UNITS)):
        raise ValueError(f"{text!r} is not {wanted}, from 0 on")
    amount, unit = Fraction(match[1]), match[2]
    if unit:
        amount = amount * _UNITS[unit] / _UNITS[own]
    return int(amount) if amount.denominator == 1 else float(amount)


def _no_option(target: str, known: Mapping[str, Rule]) -> str:
    """What to use in place of `target`, in words: the options of the rule that it names, or the nearest."""
    usable = {rule.id: sorted(f"{rule.id}.{name}" for name in rule.options) for rule in known.values()}
    rule_id = target.rpartition(".")[0] or target
    if rule_id in usable:
        own = ", ".join(usable[rule_id])
        return f"no such option. Known: {own}" if own else f"rule {rule_id} has no options"
    every = [option for options in usable.values() for option in options]
    near = get_close_matches(target, every, n=3) or [o for o in every if o.startswith(target)][:3]
    guess = f" Nearest: {', '.join(near)}." if near else ""
    return f"no such option.{guess} `storage-analyzer explain RULE` lists a rule's options."
