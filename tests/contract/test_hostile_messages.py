"""Messages made to hurt: names, counts and lengths that no honest peer sends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analyzer.core.finding import Verdict
from analyzer.pipeline.capture import CaptureJob, analyse_capture
from analyzer.report.format import formats
from tests import captures_tools as tools
from tests.contract.judged import Judged, judged_twin
from tests.crafting import Conversation, call, compound, numbers, opaque, reply, results

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

PUTROOTFH, GETFH = numbers(24), numbers(10)
HANDLE = b"\1\0\1\0" + bytes(range(24))
NAMES = {
    "comma": b"a,b,,c",
    "tab": b"a\tb",
    "new line": b"a\nb\r\nc",
    "quotes": b'"a" \'b\' \\"c\\',
    "nul": b"a\0b",
    "no UTF-8": b"\xff\xfe\x80abc\xc3",
    "surrogates": b"\xed\xa0\x80\xed\xb0\x80",
    "bar": b"a|b|0|1",
    "ellipsis": "a…".encode(),
    "escape": b"\x1b[31mred\x1b[0m\x07",
    "markup": b"</script><img src=x onerror=alert(1)>",
    "right to left": "\u202egnp.exe".encode(),
    "empty": b"",
    "dots": b"../../etc",
    "long": b"n" * 3000,
    "long with commas": b"n," * 1500,
}


def lookup(name: bytes) -> bytes:
    return numbers(15) + opaque(name)


def session(*names: bytes) -> list[tools.Packet]:
    """One LOOKUP after the other; a plain one before and after."""
    conversation = Conversation()
    packets = conversation.open()
    for xid, name in enumerate((b"first", *names, b"last"), 1):
        handle = HANDLE[:-1] + bytes([xid % 256])
        packets += conversation.ask(
            call(xid, 100003, 4, 1, compound(PUTROOTFH, lookup(name), GETFH)),
            reply(xid, results(numbers(24, 0), numbers(15, 0), numbers(10, 0) + opaque(handle))),
        )
    return packets


def operations(found: Judged) -> list[str]:
    return list(found.operations.column("op").cast("string").to_pylist())


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str, tmp_path: Path) -> None:
    found = judged_twin(tmp_path, session(NAMES[name]))
    plain = ["PUTROOTFH", "LOOKUP", "GETFH"]
    assert operations(found) in (plain * 3, plain * 2)  # that of the odd name, or it is said to be missing
    if operations(found) != plain * 3:
        assert found.coverage.degraded
    rows = found.operations.select(["op", "name", "path"]).to_pylist()
    seen = [r["name"] for r in rows if r["op"] == "LOOKUP"]
    assert (seen[0], seen[-1]) == ("first", "last")
    assert rows[-1]["path"] == "/last"
    assert not any("rule failed" in j.reason for j in found.outcome.judgements)


def test_reports_of_all_names_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "names.pcap"
    tools.write_pcap(path, session(*NAMES.values()))
    view = analyse_capture(CaptureJob((str(path),))).view
    for name, form in formats().items():
        content = form.render(view)
        text = content.decode() if isinstance(content, bytes) else content
        assert "\x1b[31mred" not in text, name
        assert "\0" not in text and "onerror=alert(1)>" not in text.replace("&gt;", ""), name
    json.loads(formats()["json"].render(view))


@pytest.mark.parametrize("count", [0, 1, 4, 1000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_operation_counts(count: int, tmp_path: Path) -> None:
    """A COMPOUND says that it holds `count` operations and holds two."""
    conversation = Conversation()
    packets = conversation.open()
    honest = compound(PUTROOTFH, GETFH)
    forged = opaque(b"") + numbers(1, count) + PUTROOTFH + GETFH
    answer = results(numbers(24, 0), numbers(10, 0) + opaque(HANDLE))
    packets += conversation.ask(call(1, 100003, 4, 1, honest), reply(1, answer))
    packets += conversation.ask(call(2, 100003, 4, 1, forged), reply(2, answer))
    forged = numbers(0) + opaque(b"") + numbers(count) + numbers(24, 0)
    packets += conversation.ask(call(3, 100003, 4, 1, honest), reply(3, forged))
    packets += conversation.ask(call(4, 100003, 4, 1, honest), reply(4, answer))
    found = judged_twin(tmp_path, packets)
    assert operations(found)[:2] == operations(found)[-2:] == ["PUTROOTFH", "GETFH"]
    assert len(operations(found)) <= 10


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 70000, 41])
def test_lengths_beyond_the_message(length: int, tmp_path: Path) -> None:
    conversation = Conversation()
    packets = conversation.open()
    honest, answer = compound(PUTROOTFH, lookup(b"a")), results(numbers(24, 0), numbers(15, 0))
    forged = compound(PUTROOTFH, numbers(15, length) + b"abcd")
    packets += conversation.ask(call(1, 100003, 4, 1, honest), reply(1, answer))
    packets += conversation.ask(call(2, 100003, 4, 1, forged), reply(2, answer))
    packets += conversation.ask(call(3, 100003, 4, 1, honest), reply(3, answer))
    found = judged_twin(tmp_path, packets)
    assert operations(found)[-2:] == ["PUTROOTFH", "LOOKUP"]
    assert not any(j.verdict is Verdict.UNKNOWN and "failed" in j.reason for j in found.outcome.judgements)


@pytest.mark.parametrize("mark", [0xFFFFFFFF, 0x80000000, 0x80000001, 0x00000000, 0x84000000])
def test_record_marks_that_lie(mark: int, tmp_path: Path) -> None:
    """A record of another length than it says: the next ones are found again, or said to be missing."""
    conversation = Conversation()
    packets = conversation.open()
    honest, answer = compound(PUTROOTFH, lookup(b"a")), results(numbers(24, 0), numbers(15, 0))
    packets += conversation.ask(call(1, 100003, 4, 1, honest), reply(1, answer))
    packets += conversation.send(numbers(mark) + call(2, 100003, 4, 1, honest))
    for xid in range(3, 40):
        packets += conversation.ask(call(xid, 100003, 4, 1, honest), reply(xid, answer))
    found = judged_twin(tmp_path, packets)
    assert operations(found)[:2] == ["PUTROOTFH", "LOOKUP"]
    assert len(operations(found)) >= 60 or found.coverage.severe


def test_a_compound_of_very_many_operations(tmp_path: Path) -> None:
    """More values than a column of the bulk decoder holds: none may be given to another operation."""
    conversation = Conversation()
    packets = conversation.open()
    names = [f"directory-{n:04d}".encode() for n in range(400)]
    calls = compound(PUTROOTFH, *(lookup(name) for name in names), GETFH)
    answer = results(numbers(24, 0), *[numbers(15, 0)] * 400, numbers(10, 0) + opaque(HANDLE))
    packets += conversation.ask(call(1, 100003, 4, 1, calls), reply(1, answer))
    packets += conversation.ask(
        call(2, 100003, 4, 1, compound(PUTROOTFH, lookup(b"after"))),
        reply(2, results(numbers(24, 0), numbers(15, 0))),
    )
    found = judged_twin(tmp_path, packets)
    rows = found.operations.select(["op", "name"]).to_pylist()
    seen = [r["name"] for r in rows if r["op"] == "LOOKUP"]
    assert seen.pop() == "after"
    assert seen in ([], [name.decode() for name in names])
    if not seen:
        assert found.coverage.degraded
