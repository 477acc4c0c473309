"""The second decoder: pyshark in a process of its own.

pyshark 0.6 takes over asyncio's child watcher of the process that it runs in, fails in threads, and may
leave tshark behind; so it gets a process whose only job it is. Run by `deep.py` as
`python -m analyzer.wire.deep_child TSHARK CAPTURE [OPTION ...]`; prints one JSON object per frame:
`{"number": 7, "layers": [["rpc", {...}], ["nfs", {...}]]}`, the fields as tshark nests them.
"""

from __future__ import annotations

import sys
from typing import Any

import orjson
import pyshark

_KEPT = frozenset({"rpc", "nfs", "nfs.cb"})


def layers_of(packet: Any) -> list[list[Any]]:
    """(name, fields) of the layers that matter, in order; several RPC messages give several layers."""
    return [
        [layer.layer_name, one._all_fields]
        for layer in packet.layers
        if layer.layer_name in _KEPT
        for one in (layer, *layer.duplicate_layers)
    ]


def main() -> None:
    """Decode every frame of the capture."""
    tshark, capture, *options = sys.argv[1:]
    frames = pyshark.FileCapture(
        capture,
        display_filter="rpc",
        tshark_path=tshark,
        use_json=True,
        keep_packets=False,
        custom_parameters=options,
    )
    try:
        for packet in frames:
            line = orjson.dumps({"number": int(packet.number), "layers": layers_of(packet)})
            sys.stdout.buffer.write(line + b"\n")
    finally:
        frames.close()


if __name__ == "__main__":
    main()
