"""A baseline: findings that were there when the tool was brought in, so that only new ones count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from analyzer.core.errors import InputError
from analyzer.core.finding import Finding

_FORMAT = "storage-analyzer/baseline/v1"
_MAX_BYTES = 64 * 2**20
REASON = "known from the baseline"


def read(path: Path) -> dict[str, str]:
    """Fingerprints of known findings, each with the reason. Raises `InputError` if it is no baseline."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
        data = orjson.loads(content)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. --write-baseline makes a baseline") from None
    except orjson.JSONDecodeError:
        data = None
    if (
        not isinstance(data, dict)
        or data.get("format") != _FORMAT
        or not isinstance(data.get("findings"), list)
    ):
        raise InputError(f"{path}: that is no baseline of this tool. --write-baseline makes one")
    found: dict[str, str] = {}
    for item in data["findings"]:
        if isinstance(item, dict) and isinstance(item.get("fingerprint"), str):
            reason = item.get("reason")
            found[item["fingerprint"]] = reason if isinstance(reason, str) and reason.strip() else REASON
    return found


def content(findings: Iterable[Finding]) -> bytes:
    """The baseline that holds these findings, as JSON to commit; a reason may be added to each."""
    rows = {
        f.fingerprint: {
            "fingerprint": f.fingerprint,
            "rule": f.rule,
            "subject": str(f.subject),
            "title": f.title,
        }
        for f in findings
    }
    ordered = sorted(rows.values(), key=lambda row: (row["rule"], row["subject"], row["fingerprint"]))
    return orjson.dumps({"format": _FORMAT, "findings": ordered}, option=orjson.OPT_INDENT_2) + b"\n"
