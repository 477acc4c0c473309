"""Labs on the command line: what is printed, and which code a command ends with."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from analyzer.core.errors import InputError
from analyzer.lab import Lab, Options, remains, running
from analyzer.pipeline.output import Screen


def up(name: str, options: Options) -> None:
    """Bring a lab up and leave it running; says how to use it."""
    began = time.monotonic()
    errors = Console(stderr=True)
    lab = Lab(name, options)
    with errors.status(f"lab {name}") as status:
        lab.up(lambda phase: status.update(f"lab {name}: {phase}") if phase else None, detach=True)
    facts = lab.status()
    screen = Screen()
    screen.print(f"Lab {name} is up after {time.monotonic() - began:.1f} s.\n")
    screen.print(_nodes([facts]))
    client = facts["nodes"][-1]["name"]
    screen.print(f"\nClients have the storage at {facts['mount']}. Next:", highlight=False)
    for words in (
        f"exec {client} -- touch {facts['mount']}/hello",
        f"fault {client} freeze",
        f"down {name}",
    ):
        screen.print(f"  storage-analyzer lab {words}", highlight=False)
    if options.capture is not None:
        screen.print(f"{options.capture} is complete after `lab down`.", highlight=False)


def status(as_json: bool) -> None:
    """All labs, their nodes, and what killed labs left behind."""
    found = [lab.status() for lab in running()]
    dead = remains()
    if as_json:
        print(json.dumps({"labs": found, "remains": [state.name for state in dead]}, indent=1))
        return
    screen = Screen()
    if found:
        screen.print(_nodes(found))
    else:
        screen.print("No lab is up. `storage-analyzer lab up nfs` brings one up.", highlight=False)
    for state in dead:
        screen.print(f"Remains of {state.name}: `storage-analyzer lab down {state.name}` removes them.")


def _nodes(labs: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("lab", "node", "address", "state", "clock"):
        table.add_column(heading, justify="right" if heading == "clock" else "left")
    for facts in labs:
        offsets = {clock["node"]: clock for clock in facts.get("clocks", [])}
        for node in facts["nodes"]:
            table.add_row(
                facts["name"],
                node["name"],
                node["address"],
                _state(node),
                _offset(offsets.get(node["name"])),
            )
    return table


def _state(node: dict[str, Any]) -> str:
    if not node["alive"]:
        return "dead"
    words = [w for w, set_ in (("frozen", node["frozen"]), ("partitioned", node["partitioned"])) if set_]
    return ", ".join(words) or "up"


def _offset(clock: dict[str, Any] | None) -> str:
    if clock is None:
        return ""
    return f"{clock['wall_lo_ns'] / 1e6:+.2f} to {clock['wall_hi_ns'] / 1e6:+.2f} ms"


def execute(name: str | None, node: str, argv: Sequence[str], timeout_s: float, stdin: bool) -> int:
    """Run a command in a node, its output as it comes; returns its exit code. `stdin`: give it ours."""
    lab = chosen(name)
    text = sys.stdin.buffer.read() if stdin else b""
    code = 0
    for line in lab.node(node).stream(argv, timeout_s=timeout_s, text=text):
        for key, stream in (("out", sys.stdout), ("err", sys.stderr)):
            if key in line:
                stream.buffer.write(base64.b64decode(line[key]))
                stream.buffer.flush()
        if "exit" in line:
            code = int(line["exit"])
            if line["timed_out"]:
                hangs = " and could not be killed: it hangs in the kernel" if line["stuck"] else ""
                print(f"storage-analyzer: ended after {timeout_s:g} s{hangs}", file=sys.stderr)
    return code


def fault(name: str | None, node: str, what: str, amount: float | None) -> None:
    """Hurt a node, or mend it."""
    chosen(name).fault(node, what, amount)


def down(names: Sequence[str], every: bool) -> None:
    """Take labs down; without names the one that is up."""
    left = {state.name for state in remains()}
    if every:
        names = [*(lab.name for lab in running()), *left]
    elif not names:
        names = [chosen(None).name] if running() or not left else sorted(left)
    for name in names:
        lab = Lab(name)
        if not lab.state.exists():
            raise InputError(f"no lab is named {name}: `storage-analyzer lab status` lists them")
        lab.down()
        print(f"lab {name} is down", file=sys.stderr)


def chosen(name: str | None) -> Lab:
    """The lab of that name, or the only one. Raises `InputError` where that is none or several."""
    if name is not None:
        return Lab(name)
    labs = running()
    if not labs:
        raise InputError("no lab is up: `storage-analyzer lab up nfs` brings one up")
    if len(labs) > 1:
        raise InputError(f"several labs are up, say which by --name: {', '.join(lab.name for lab in labs)}")
    return labs[0]
