"""The capture on the storage network: one clock for all nodes."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from analyzer.lab import network
from analyzer.lab.host import LabError, program

#: Storage traffic alone: no ARP, no IPv6 autoconfiguration.
FILTER: Final = "ip and (tcp or udp)"
_START_S: Final = 10.0
_FLUSH_S: Final = 0.5


class Recorder:
    """A running dumpcap; it captures from the return of the constructor on."""

    def __init__(self, target: Path, log: Path) -> None:
        target.unlink(missing_ok=True)
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    program("dumpcap"),
                    *("-q", "-i", network.STORAGE, "-f", FILTER, "-B", "64", "-s", "0", "-w", str(target)),
                    *(["-P"] if target.suffix == ".pcap" else []),  # pcapng else, which names the machine
                ],
                stdout=subprocess.DEVNULL,
                stderr=out,
            )
        end = time.monotonic() + _START_S
        while not target.exists() or b"File:" not in log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                why = log.read_text("utf-8", "replace").strip().splitlines()
                raise LabError(f"no capture into {target}: {why[-1] if why else 'dumpcap did not start'}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the capture with everything in it that came before."""
        if self._process.poll() is None:
            time.sleep(_FLUSH_S)  # dumpcap takes packets from the kernel in batches
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
