"""Paths that only a directory listing tells, held against what the client did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyzer.core.operations import operations
from analyzer.wire import decode
from analyzer.wire.capture import Capture, CaptureOptions

CAPTURES = Path(__file__).parents[2] / "captures"
LISTER = "10.99.0.3"  # client B, which made none of the files


def opened(scratch: Path) -> tuple[set[str | None], int]:
    """Paths of B's OPENs, seen through B's connection alone, and frames that pyshark read."""
    capture = str(CAPTURES / "kernel-readdir.pcap")
    with Capture([capture], scratch, CaptureOptions(client=LISTER), lambda *_: None) as source:
        rows = [row for batch in source.batches() for row in operations(batch)]
        deep = sum(result.counts.deep for result in source.totals.results)
    opens = [row for row in rows if row.op == "OPEN"]
    assert {row.claim for row in opens} == {"fh"}, "opened by handle: no OPEN told a name"
    return {row.path for row in opens}, deep


def truth() -> set[str]:
    lines = (CAPTURES / "kernel-readdir.truth.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines]
    return {f"/{call['path']}" for call in calls if call.get("who") == "clientb" and call["what"] == "open"}


def test_files_opened_by_handle_have_the_paths_that_readdir_told(tmp_path: Path) -> None:
    paths, deep = opened(tmp_path)
    assert paths == truth()
    assert deep == 1, "the listing of 60 entries is longer than a column"


def test_without_the_second_decoder_the_short_listing_still_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "MAX_LISTINGS", 0)
    paths, deep = opened(tmp_path)
    assert deep == 0
    assert paths == {path for path in truth() if path.count("/") == 2} | {None}
