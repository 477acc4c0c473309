"""Run a capture through the whole pipeline and keep what tests compare: operations, findings, coverage."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import analyzer.analysis
from analyzer.core.coverage import Coverage, Loss
from analyzer.core.finding import ExitCode, Finding, Severity
from analyzer.core.rule import Fold, Outcome, discover, folds_for, judge, run_folds
from analyzer.core.table import Tables
from analyzer.pipeline.output import exit_code
from analyzer.pipeline.rules import operation_rules
from analyzer.wire.capture import Capture, CaptureOptions
from tests.captures_tools import Packet, write_pcap

CAPTURES = Path(__file__).parents[2] / "captures"
GANESHA = CAPTURES / "nfs41-ganesha-locks-restart-port20490.pcap"
KERNEL = CAPTURES / "nfs41-two-kernel-clients.pcapng"
PYNFS = CAPTURES / "nfs40-pynfs-locks.pcap"
RULES = {rule.id: rule for rule in operation_rules("wire")}
_FOLDS = discover(analyzer.analysis, "FOLD", Fold)


@dataclass(frozen=True, slots=True)
class Judged:
    """`operations` are all rows, column by column."""

    operations: pa.Table
    outcome: Outcome
    coverage: Coverage

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self.outcome, self.coverage, Severity.MEDIUM)

    @property
    def losses(self) -> set[Loss]:
        return {note.loss for note in self.coverage.notes if note.loss is not None}

    @property
    def notes(self) -> str:
        return "\n".join(note.text for note in self.coverage.notes)

    def findings(self, rule: str) -> list[Finding]:
        return [finding for finding in self.outcome.findings if finding.rule == rule]


def judged(*files: Path | str, **options: Any) -> Judged:
    """What the tool says of these capture files."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Capture([str(f) for f in files], Path(scratch), CaptureOptions(**options), _silent) as capture,
    ):
        tables, batches = Tables(Path(scratch)), list[pa.RecordBatch]()

        def kept() -> Iterable[pa.RecordBatch]:
            for batch in capture.batches():
                batches.append(batch)
                yield batch

        rules = list(RULES.values())
        kinds = run_folds(kept(), folds_for(rules, _FOLDS), tables)
        coverage = capture.coverage
        outcome = judge(rules, tables, coverage, kinds)
        table = pa.Table.from_batches(batches) if batches else pa.table({})
        return Judged(table, outcome, coverage)


def judged_twin(folder: Path, packets: Iterable[Packet], link: int = 1, **options: Any) -> Judged:
    """The same for packets, written to a file first."""
    path = folder / "twin.pcap"
    write_pcap(path, packets, link=link, nanoseconds=True)
    return judged(path, **options)


def rows(table: pa.Table, without: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Operations as dictionaries, without the columns named."""
    left_out = set(without)
    kept = table.select([name for name in table.schema.names if name not in left_out])
    return list(kept.to_pylist())


def _silent(_stage: str, _done: int, _total: int) -> None:
    return
