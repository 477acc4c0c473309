"""Asks an installed tshark whether it takes a filter.

tshark compiles the filter before it reads anything, so an empty capture on its standard input is
enough. The expression travels as one argument, never through a shell.
"""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import dataclass
from typing import Final

from analyzer.core.errors import ToolError
from analyzer.wire.tshark import Tshark, find_tshark

_EMPTY_CAPTURE: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1024, 1)
_SECONDS: Final = 20.0
_INDENT: Final = 4


@dataclass(frozen=True, slots=True)
class Compiled:
    """`ok` is None if tshark couldn't be asked; `message` then says why. `column` is 0-based."""

    ok: bool | None
    message: str = ""
    column: int | None = None
    width: int = 1
    version: str = ""


def compile_filter(expression: str, tshark: Tshark | None = None) -> Compiled:
    """Let tshark compile the expression; never raises for a missing or failing tshark."""
    try:
        program = tshark or find_tshark()
    except ToolError as error:
        return Compiled(None, f"Checked, but not compiled: {error}")
    if "\0" in expression:
        return Compiled(False, "a filter can't hold the character NUL")
    try:
        done = subprocess.run(
            [program.path, "-n", "-r", "-", "-Y", expression],
            input=_EMPTY_CAPTURE,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Compiled(None, f"tshark could not be asked ({type(error).__name__})")
    lines = [
        line
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip() and not line.startswith("Running as")
    ]
    if done.returncode == 0:
        return Compiled(True, " ".join(lines), version=program.version)
    column, width = _caret(lines)
    message = lines[0].removeprefix("tshark: ") if lines else f"exit code {done.returncode}"
    return Compiled(False, message, column, width, program.version)


def _caret(lines: list[str]) -> tuple[int | None, int]:
    for line in lines:
        if match := re.fullmatch(r"\s*(\^~*)", line):
            return line.index("^") - _INDENT, len(match[1])
    return None, 1
