"""The linter and the catalogue against a real tshark, and against captures whose truth is known."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from analyzer.wire.filters.catalogue import CATALOGUE, Entry, entry
from analyzer.wire.filters.command import filter_command
from analyzer.wire.filters.compiling import compile_filter
from analyzer.wire.filters.linter import lint
from tests.unit.wire.filters.examples import ARTICLE, RIGHT, WRONG

CAPTURES = Path(__file__).parents[2] / "captures"
GANESHA = CAPTURES / "nfs41-ganesha-locks-restart-port20490.pcap"
KERNEL = CAPTURES / "nfs41-two-kernel-clients.pcapng"

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark isn't installed")

#: Refused only by the linter: Wireshark takes them and shows the wrong frames.
_REFUSED_BY_TSHARK = {
    "syntax",
    "unknown-field",
    "value-without-field",
    "unknown-function",
    "quoted-number",
    "search-in-number",
    "unquoted-pattern",
    "boolean-value",
    "bytes-as-number",
    "unknown-value",
}


@functools.cache
def compiles(text: str) -> bool:
    return compile_filter(text).ok is True


def rows(capture: Path, expression: str, *options: str) -> int:
    """How many frames of a capture the filter shows."""
    if not capture.exists():
        pytest.skip(f"{capture.name} is missing")
    command = ["tshark", "-n", *options, "-o", "tcp.try_heuristic_first:TRUE", "-r", str(capture)]
    done = subprocess.run(
        [*command, "-Y", expression, "-T", "fields", "-e", "frame.number"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return len(done.stdout.splitlines())


@pytest.mark.parametrize("text", RIGHT)
def test_right_filters_compile(text: str) -> None:
    compiled = compile_filter(text)
    assert compiled.ok, compiled.message


@pytest.mark.parametrize("text", WRONG, ids=repr)
def test_corrections_compile_and_refusals_agree(text: str) -> None:
    result = lint(text)
    if result.corrected:
        assert compiles(result.corrected), compile_filter(result.corrected).message
    rules = {fault.rule for fault in result.faults}
    if not rules & {"unusable"}:
        assert compiles(text) == (not rules & _REFUSED_BY_TSHARK), compile_filter(text).message


def test_the_place_of_a_refusal_is_that_of_tshark() -> None:
    compiled = compile_filter("rpc && nfs.lock_owner")
    assert (compiled.ok, compiled.column, compiled.width) == (False, 7, 14)


def test_an_expression_never_reaches_a_shell(tmp_path: Path) -> None:
    target = tmp_path / "made"
    report = filter_command(f'nfs.tag == "$(touch {target})`touch {target}`"; touch {target}')
    assert report.exit_code == 2 and not target.exists()


#: (question, frames in the ganesha capture, frames in the kernel capture); the first column agrees with
#: what the clients' own log says, the second with the 2 x 200 rounds of lock, write, unlock.
COUNTS = [
    ("lock-failed", 7, 0),  # 5 denied, one OPENMODE, one INVAL
    ("lock-denied", 5, 0),
    ("lock-waits", 4, 400),
    ("lock-reclaim", 1, 0),
    ("reclaim-refused", 2, 0),
    ("open-failed", 16, 1),  # 13 GRACE, 2 NO_GRACE, 1 SHARE_DENIED
    ("open-share-denied", 1, 0),
    ("open-deny", 1, 0),
    ("open-confirm", 2, 0),
    ("failed", 35, 4),  # 34 failed, and one TEST_STATEID with a failure inside
    ("grace", 13, 0),
    ("session-lost", 2, 0),
    ("slots", 2, 0),
    ("test-stateid", 1, 0),
    ("delay", 0, 1),
    ("delegation-granted", 0, 1),
    ("recall", 0, 4),  # CB_RECALL and DELEGRETURN with their replies
    ("unanswered", 0, 0),
]


@pytest.mark.parametrize(("question", "ganesha", "kernel"), COUNTS)
def test_counts_on_real_captures(question: str, ganesha: int, kernel: int) -> None:
    found = entry(question)
    assert rows(GANESHA, found.filter, *found.options) == ganesha
    assert rows(KERNEL, found.filter, *found.options) == kernel


@pytest.mark.parametrize("found", CATALOGUE, ids=lambda e: e.id)
def test_every_command_runs(found: Entry) -> None:
    if not GANESHA.exists():
        pytest.skip(f"{GANESHA.name} is missing")
    done = subprocess.run(
        found.arguments(str(GANESHA)), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_article_filter_fails_and_its_correction_finds_the_seven() -> None:
    if not GANESHA.exists():
        pytest.skip(f"{GANESHA.name} is missing")
    assert not compiles(ARTICLE)
    assert rows(GANESHA, "nfs.opcode == 13 && nfs.status != 0") == 0
    assert rows(GANESHA, "nfs.opcode == 12 && nfs.status != 0") == 0
    assert rows(GANESHA, lint(ARTICLE).corrected) == 7
    assert rows(GANESHA, lint("nfs.opcode == 12 && nfs.status != 0").corrected) == 6
    assert rows(GANESHA, "nfs.nfsstat4 != 0") == 5
    assert rows(GANESHA, lint("nfs.nfsstat4 != 0").corrected) == 35
