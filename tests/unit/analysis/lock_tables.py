"""What the lock fold makes of lines of the notation."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.analysis.lock_fold import FOLD
from analyzer.core.notation import parse_events
from analyzer.core.operations import validate
from analyzer.core.rule import Fold, run_folds
from analyzer.core.table import Tables


def tables_of(text: str, folds: Sequence[Fold] = (FOLD,), batches: int = 1) -> Tables:
    """Run the folds over the lines, cut into that many batches."""
    batch = parse_events(text)
    validate(batch)
    size = -(-batch.num_rows // batches)
    tables = Tables()
    run_folds([batch.slice(i, size) for i in range(0, batch.num_rows, size)], folds, tables)
    return tables
