"""Run folds and rules on a text in the notation."""

from __future__ import annotations

from typing import Any, TypeVar

import analyzer.analysis
import analyzer.rules
from analyzer.core.coverage import Coverage
from analyzer.core.finding import Finding
from analyzer.core.notation import NS, parse_events
from analyzer.core.rule import Fold, Rule, discover, folds_for, judge, run_folds
from analyzer.core.table import Tables

Row = TypeVar("Row")

FOLDS = {fold.name: fold for fold in discover(analyzer.analysis, "FOLD", Fold)}
RULES = {rule.id: rule for rule in discover(analyzer.rules, "RULE", Rule)}


def s(seconds: float) -> int:
    """Seconds as ns."""
    return round(seconds * NS)


def rows(row_type: type[Row], text: str, batch_rows: int | None = None) -> list[Row]:
    """The rows of a type that the text gives; `batch_rows` cuts the operations into batches."""
    folds = [fold for fold in FOLDS.values() if row_type in fold.produces]
    batch = parse_events(text, folds[0].witness)
    size = batch_rows or batch.num_rows
    tables = Tables()
    run_folds([batch.slice(at, size) for at in range(0, batch.num_rows, size)], folds, tables)
    return list(tables.of(row_type))


def findings(rule_id: str, text: str, batch_rows: int | None = None, **options: Any) -> list[Finding]:
    """What one rule finds in the text; an exception inside the rule fails the test."""
    rule = RULES[rule_id]
    batch = parse_events(text, rule.witness)
    size = batch_rows or batch.num_rows
    tables = Tables()
    cut = [batch.slice(at, size) for at in range(0, batch.num_rows, size)]
    kinds = run_folds(cut, folds_for([rule], list(FOLDS.values())), tables)
    outcome = judge([rule], tables, Coverage(), kinds, {rule_id: options} if options else {})
    assert not outcome.judgements[0].reason.startswith("the rule failed"), outcome.judgements[0].reason
    return list(outcome.findings)
