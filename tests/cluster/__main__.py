"""`python -m tests.cluster`: build the control plane's programs unless they are there.

With `--serve`, start one and wait for Enter: its kubeconfig is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.cluster.binaries import NoGoError, build
from tests.cluster.control_plane import ADMIN, control_plane


def main() -> None:
    """Build, and serve if asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="start a control plane until Enter is pressed")
    parser.add_argument("--controllers", action="store_true", help="with kube-controller-manager")
    chosen = parser.parse_args()
    try:
        binaries = build()
    except (NoGoError, subprocess.CalledProcessError) as error:
        output: bytes = getattr(error, "stderr", None) or b""
        print(output.decode(errors="replace")[-3000:], file=sys.stderr)
        print(f"{error}\nTests of a real API server will be skipped.", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") or chosen.serve else 0)
    print(f"control plane: {binaries.folder}")
    if chosen.serve:
        with control_plane(binaries, chosen.controllers) as plane:
            print(f"export KUBECONFIG={plane.kubeconfig(ADMIN)}")
            input("running; press Enter to end it ")


if __name__ == "__main__":
    main()
