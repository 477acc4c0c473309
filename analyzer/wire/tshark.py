"""Find and start tshark."""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analyzer.core.errors import ToolError
from analyzer.wire.columns import column_format

#: `!=` means "none equals" and custom columns may hold several fields since 4.0.
MINIMUM: Final = (4, 0)
INSTALL: Final = "apt-get install tshark (Debian, Ubuntu), dnf install wireshark-cli (Fedora, RHEL)"


@dataclass(frozen=True, slots=True)
class Tshark:
    """A usable tshark: its path and version."""

    path: str
    version: str


def find_tshark() -> Tshark:
    """The tshark on PATH; raises `ToolError` with the install command if it's missing or too old."""
    return start_tshark().answer()


@dataclass(frozen=True, slots=True)
class Asked:
    """A tshark that was asked for its version (it takes a while to start). Take the answer, or cancel."""

    path: str
    process: subprocess.Popen[str]

    def answer(self) -> Tshark:
        """What it said; raises `ToolError` as `find_tshark` does."""
        return _version(self.path, self.process)

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_tshark() -> Asked:
    """Begin to ask the tshark on PATH for its version; raises `ToolError` as `find_tshark` does."""
    path = shutil.which("tshark")
    if path is None:
        raise ToolError(f"tshark is not installed. Install it with: {INSTALL}")
    try:
        process = subprocess.Popen(
            [path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise ToolError(f"tshark at {path} does not start: {error.strerror or error}") from error
    return Asked(path, process)


def _version(path: str, process: subprocess.Popen[str]) -> Tshark:
    try:
        said, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise ToolError(f"tshark at {path} does not start within 60 s") from None
    match = re.search(r"TShark[^\d]*(\d+)\.(\d+)(\.\d+)?", said)
    if match is None:
        raise ToolError(f"{path} does not say its version; is it tshark? Install it with: {INSTALL}")
    if (int(match[1]), int(match[2])) < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        found = f"{match[1]}.{match[2]}"
        raise ToolError(f"tshark {found} is too old, {wanted} is needed. Install it with: {INSTALL}")
    return Tshark(path, f"{match[1]}.{match[2]}{match[3] or ''}")


class Order(enum.StrEnum):
    """How well the segments of some connections arrived; decides what tshark must do about it."""

    CLEAN = "clean"  # one after the other, each once
    DISORDER = "disorder"  # sent again or out of order, but all there
    LOSSY = "lossy"  # some never reached the capture


def options(order: Order) -> list[str]:
    """Options that both decoders share.

    A client port may belong to another protocol (705 is AgentX), so heuristics come first: RPC is told
    by its content on any port. TCP sequence analysis costs a fifth of the time and is needed only
    where segments were sent again. Reordering waits for a missing segment for ever, so it's off where
    one never came.
    """
    chosen = ["-n", "-o", "tcp.try_heuristic_first:TRUE", "-o", "tcp.calculate_timestamps:FALSE"]
    if order is Order.CLEAN:
        return [*chosen, "-o", "tcp.analyze_sequence_numbers:FALSE"]
    reorder = "TRUE" if order is Order.DISORDER else "FALSE"
    return [*chosen, "-o", f"tcp.reassemble_out_of_order:{reorder}"]


def bulk_command(tshark: Tshark, order: Order, ports: Iterable[int] = ()) -> list[str]:
    """The bulk decoder: a capture on standard input, one line of columns per frame.

    `ports` are those of connections whose first segment is no call: heuristics can't tell RPC by it, and
    a dissector that claims the port (862 is TWAMP) would swallow what follows.
    """
    columns = ["-T", "tabs", "-o", f"gui.column.format:{column_format()}"]
    named = [word for port in ports for word in ("-d", f"tcp.port=={port},rpc")]
    return [tshark.path, "-r", "-", *options(order), *named, *columns]


def start(command: Sequence[str], configuration: Path, stderr: int) -> subprocess.Popen[bytes]:
    """Start tshark away from the user's own preferences, so that the same capture gives the same rows."""
    environment = dict(os.environ)
    environment |= {
        "LC_ALL": "C.UTF-8",
        "WIRESHARK_CONFIG_DIR": str(configuration),
        "XDG_CONFIG_HOME": str(configuration),
    }
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment
        )
    except OSError as error:
        raise ToolError(f"tshark does not start: {error.strerror or error}") from error
