"""Real NFSv4 and CephFS clusters on this one machine, for the demo, the tests and the captures.

A lab is one supervisor process, the first of PID, network and mount namespaces of its own. Everything of
the lab lives in these: when that process ends, by whatever cause, the kernel ends every other process,
unmounts every file system and removes every network device. Nodes are user-mode-linux kernels: a real NFS
server and real clients, each an ordinary process.
"""

from analyzer.lab.lab import Lab, LabError, Node, remains, running
from analyzer.lab.options import CephOptions, NfsOptions, Options

__all__ = ["CephOptions", "Lab", "LabError", "NfsOptions", "Node", "Options", "remains", "running"]
