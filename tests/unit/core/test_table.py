"""Derived tables: the same rows come back, from memory and from disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analyzer.core.table import Table, Tables, schema_of


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    count: int
    share: float
    seen: bool
    owner: str | None
    end_ns: int | None
    evidence: tuple[str, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Other:
    name: str


def sample(number: int) -> Sample:
    odd = number % 2 == 1
    return Sample(
        f"n{number}", number, number / 4, odd, None if odd else "o", number if odd else None, ("a#1",), ()
    )


@pytest.fixture(params=["memory", "disk"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "Sample.arrow" if request.param == "disk" else None


def test_rows_come_back_as_they_were_as_often_as_asked(path: Path | None) -> None:
    table = Table(Sample, path)
    rows = [sample(n) for n in range(10_000)]  # more than two flushes
    table.extend(rows)
    assert len(table) == 10_000
    assert list(table) == rows
    assert list(table) == rows
    assert sum(batch.num_rows for batch in table.batches()) == 10_000


def test_batches_outlive_the_walk(path: Path | None) -> None:
    table = Table(Sample, path)
    table.extend([sample(n) for n in range(5000)])
    assert pa.Table.from_batches(list(table.batches())).column("count")[4999].as_py() == 4999


def test_an_empty_table(path: Path | None) -> None:
    table = Table(Sample, path)
    assert list(table) == []
    assert len(table) == 0


def test_appending_after_reading_is_an_error_not_a_loss(path: Path | None) -> None:
    table = Table(Sample, path)
    table.append(sample(1))
    assert list(table) == [sample(1)]
    with pytest.raises(ValueError, match="Sample is closed"):
        table.append(sample(2))
    assert list(table) == [sample(1)]


def test_a_file_of_an_earlier_run_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "Sample.arrow"
    earlier = Table(Sample, path)
    earlier.append(sample(1))
    earlier.close()
    assert list(Table(Sample, path)) == []
    later = Table(Sample, path)
    later.append(sample(2))
    assert list(later) == [sample(2)]


def test_tables_are_kept_by_row_type(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.of(Other).append(Other("x"))
    tables.of(Sample).append(sample(1))
    tables.close()
    assert list(tables.of(Other)) == [Other("x")]
    assert list(tables.of(Sample)) == [sample(1)]
    assert {p.name for p in tmp_path.iterdir()} == {"Other.arrow", "Sample.arrow"}


def test_schema_of_a_row_type() -> None:
    schema = schema_of(Sample)
    assert schema.field("end_ns").type == pa.int64()
    assert schema.field("owner").type == pa.string()
    assert schema.field("evidence").type == pa.list_(pa.string())


def _with(hint: Any) -> type[Any]:
    return dataclass(type("Strange", (), {"__annotations__": {"field": hint}}))


@pytest.mark.parametrize("hint", [dict[str, int], list[str], int | str, int | str | None, bytes])
def test_a_field_that_arrow_cant_hold_is_named(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"Strange\.field: .* has no Arrow type"):
        schema_of(_with(hint))
