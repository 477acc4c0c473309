"""The right display filter for each question, with the tshark command that answers it.

The filters are written for Wireshark 4.0 and later; all compile with 4.0.17. Numbers are used in place
of names because Wireshark's names for some statuses are wrong, and a number works in every version.

`catalogue.txt` beside this module holds the entries: one block per question, a blank line between.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import Final

#: Why each command carries it: a client's privileged source port may belong to another protocol (705 is
#: AgentX), whose dissector then hides the whole connection.
HEURISTIC: Final = "-o tcp.try_heuristic_first:TRUE"


@dataclass(frozen=True, slots=True)
class Entry:
    """One question. `fields` are printed by the command, in this order; `options` go before `-r`."""

    id: str
    topic: str
    question: str
    filter: str
    shows: str
    fields: tuple[str, ...]
    options: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def arguments(self, file: str = "FILE") -> list[str]:
        """The command as an argument list, ready for `subprocess.run`."""
        options = [part for option in (*self.options, HEURISTIC) for part in option.split(" ")]
        printed = [part for field in self.fields for part in ("-e", field)]
        return ["tshark", "-n", *options, "-r", file, "-Y", self.filter, "-T", "fields", *printed]

    def command(self, width: int = 78) -> str:
        """The command for a shell, broken with backslashes to fit the width."""
        options = [*self.options, HEURISTIC]
        parts = ["tshark -n", *options, "-r FILE", f"-Y '{self.filter}'", "-T fields"]
        parts += [f"-e {field}" for field in self.fields]
        lines, line = [], parts[0]
        for part in parts[1:]:
            if len(line) + 1 + len(part) + 2 > width:
                lines.append(line + " \\")
                line = "  " + part
            else:
                line += " " + part
        return "\n".join([*lines, line])


def _entry(block: str) -> Entry:
    values: dict[str, str] = {}
    caveats: list[str] = []
    for line in block.strip().splitlines():
        key, _, text = line.partition(": ")
        if key == "caveat":
            caveats.append(text)
        else:
            values[key] = text
    return Entry(
        id=values["id"],
        topic=values["topic"],
        question=values["question"],
        filter=values["filter"],
        shows=values["shows"],
        fields=tuple(values["fields"].split()),
        options=tuple(values["options"].split(", ")) if "options" in values else (),
        caveats=tuple(caveats),
    )


def _read() -> tuple[Entry, ...]:
    text = importlib.resources.files(__package__).joinpath("catalogue.txt").read_text("ascii")
    return tuple(_entry(block) for block in text.strip().split("\n\n"))


CATALOGUE: Final = _read()


def entry(entry_id: str) -> Entry:
    """The entry with this id; raises `KeyError`."""
    for found in CATALOGUE:
        if found.id == entry_id:
            return found
    raise KeyError(entry_id)
