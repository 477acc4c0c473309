"""Both decoders, tshark's columns and pyshark's trees, must see the same operations in every capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyzer.core.operations import operations
from analyzer.wire import decode
from analyzer.wire.capture import Capture, CaptureOptions

CAPTURES = Path(__file__).parents[2] / "captures"
COMPARED = sorted(set(CAPTURES.glob("*.pcap*")) - set(CAPTURES.glob("cephfs-*")))
#: Attributes: the columns can't say whose they are where two operations of a COMPOUND hold some.
TREE_KNOWS_MORE = {"size", "lease_seconds", "max_read", "max_write"}


def rows(capture: Path, scratch: Path) -> tuple[list[dict[str, Any]], int]:
    """All operations, and how many frames the second decoder read."""
    scratch.mkdir()
    source = Capture([str(capture)], scratch, CaptureOptions(), lambda *_: None)
    found = [row._asdict() for batch in source.batches() for row in operations(batch)]
    return found, sum(result.counts.deep for result in source.totals.results)


@pytest.mark.parametrize("capture", COMPARED, ids=lambda p: p.stem)
def test_both_decoders_see_the_same_operations(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk, _ = rows(capture, tmp_path / "bulk")
    # every frame is declared too long for a column, so that pyshark gets all of them
    monkeypatch.setattr(decode, "_clipped", lambda values: np.arange(len(values["types"])))
    deep, frames = rows(capture, tmp_path / "deep")
    assert frames > 100
    assert len(bulk) == len(deep)
    for one, other in zip(bulk, deep, strict=True):
        for name, value in one.items():
            if not (name in TREE_KNOWS_MORE and value is None):
                assert value == other[name], f"{name} of {one['op']} at {one['at_call']}"


def test_a_frame_with_two_messages(tmp_path: Path, coalesced: Path) -> None:
    found, deep = rows(coalesced, tmp_path / "rows")
    assert deep == 0, "the counts tell the two messages apart"
    frame = [r["op"] for r in found if r["at_call"].endswith("#36")]
    assert frame == ["SEQUENCE", "PUTFH", "LOCK", "SEQUENCE", "PUTFH", "LOCKU"]


def test_an_answer_to_a_callback_beside_a_call(tmp_path: Path) -> None:
    """A kernel client answers CB_NOTIFY_LOCK and asks for the lock in one segment."""
    found, deep = rows(CAPTURES / "kernel-lock-contention.pcap", tmp_path / "rows")
    assert deep == 0, "calls of the client's own and answers to callbacks can't be mistaken"
    asked = [(r["op"], r["status"]) for r in found if r["at_call"].endswith("#926")]
    answered = [(r["op"], r["status"]) for r in found if str(r["at_return"]).endswith("#926")]
    assert asked == [("SEQUENCE", "ok"), ("PUTFH", "ok"), ("LOCK", "ok")]
    assert answered == [("CB_SEQUENCE", "ok"), ("CB_NOTIFY_LOCK", "ok")]
