"""What the clients of the captures wrote down, and what the analysis says of the same capture.

Each capture has a truth file: one line per call of a client, with its start, end and result by the
client's own clock (which differs from the capture's by 0.4 ms at most, but for client B in
kernel-restart-reclaim: 80 ms). See captures/README.md.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from analyzer.pipeline.capture import CaptureJob, analyse_capture

CAPTURES = Path(__file__).parents[2] / "captures"
MS, SECOND = 1_000_000, 1_000_000_000
CLIENTS = {"clienta": "10.99.0.2", "clientb": "10.99.0.3"}
Finding = dict[str, Any]
Report = dict[str, Any]


@cache
def analysed(name: str, folder: Path, setting: str = "") -> Report:
    output = folder / f"{name}{setting}"
    settings = (setting,) if setting else ()
    capture = str(CAPTURES / f"{name}.pcap")
    analyse_capture(CaptureJob((capture,), output=output, formats=("json",), settings=settings))
    report: Report = json.loads((output / "report.json").read_text("utf-8"))
    return report


@cache
def truth(name: str) -> list[Any]:
    """Calls with wall times as the capture's clock has them, where the offset was measured (lines `clock`,
    as the lab tells them: the node's clock minus the capture's lies within an interval)."""
    told = [json.loads(line) for line in (CAPTURES / f"{name}.truth.jsonl").read_text("utf-8").splitlines()]
    clocks = {t["who"]: (t["wall_lo_ns"] + t["wall_hi_ns"]) // 2 for t in told if t["what"] == "clock"}
    lines = [line for line in told if line["what"] != "clock"]
    for line in lines:
        for key in ("wall_start_ns", "wall_end_ns"):
            line[key] -= clocks.get(line["who"], 0)
    return lines


def calls(name: str, **wanted: Any) -> list[Any]:
    """Lines of the truth in which these fields have these values."""
    return [line for line in truth(name) if all(line.get(k) == v for k, v in wanted.items())]


def took(line: Any) -> float:
    return float(line["wall_end_ns"] - line["wall_start_ns"])


def by_rule(report: Report) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in report["findings"]:
        found.setdefault(finding["rule"], []).append(finding)
    return found


def rules(report: Report, least: str = "info") -> set[str]:
    order = ["info", "low", "medium", "high", "critical"]
    return {f["rule"] for f in report["findings"] if order.index(f["severity"]) >= order.index(least)}


def match(wait: Any, lines: list[Any]) -> Any:
    """The call that this wait was."""
    for line in lines:
        same = (line["offset"], line["length"], line["type"]) == (
            wait["offset"],
            wait["length"],
            wait["lock_type"],
        )
        inside = line["wall_start_ns"] - MS <= wait["asked_ns"] <= line["wall_end_ns"]
        if same and inside and CLIENTS[line["who"]] == wait["client"]:
            return line
    return None


def held_against_truth(name: str, folder: Path) -> list[Any]:
    """Every wait of the report is a call that waited that long; returns the calls that waited and have
    no wait in the report."""
    locks = [line for line in calls(name, what="lock", blocking=True) if line["result"] == "ok"]
    left, late = list(locks), []
    for wait in analysed(name, folder)["waits"]:
        if not wait["blocking"]:
            continue
        line = match(wait, left)
        assert line is not None, wait
        left.remove(line)
        late.append(abs(wait["granted_ns"] - line["wall_end_ns"]))
        assert late[-1] < 5 * MS  # the process may run later than its kernel got the answer
        assert wait["holder_client"] != wait["client"]
        assert (
            wait["hold_ns"] + wait["queue_ns"] + wait["backoff_ns"] == wait["granted_ns"] - wait["asked_ns"]
        )
    assert median(late) < MS // 2
    return [line for line in left if took(line) > 20 * MS]


# --- lock contention ---------------------------------------------------------------------------------
