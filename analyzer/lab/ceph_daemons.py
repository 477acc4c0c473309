"""Monitor, OSD and metadata server of one small Ceph, as processes of the supervisor.

Settings that make the start reliable and fast: the daemons read no configuration from the monitor (its
first answer may come too early), and the monitors propose at once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from analyzer.lab import network
from analyzer.lab.host import LabError, program
from analyzer.lab.options import CephOptions

_ADMIN: Final = Path(__file__).with_name("ceph_admin.py")
ADDRESS: Final = network.storage_address(1)
PORTS: Final = {"v1": 6789, "v2": 3300}

_CONF: Final = """
[global]
fsid = {fsid}
mon_host = {monitors}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = {folder}/keyring
admin_socket = {folder}/run/$name.asok
log_file = {folder}/log/$name.log
run_dir = {folder}/run
pid_file = {folder}/run/$name.pid
public_addr = {address}
cluster_addr = 127.0.0.1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_autoscale_mode = off
osd_objectstore = memstore
memstore_device_bytes = 1073741824
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
auth_allow_insecure_global_id_reclaim = true
no_mon_config = true
monmap = {folder}/monmap
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
ms_bind_ipv6 = false
ms_bind_msgr2 = {msgr2}
ms_mon_client_mode = crc
ms_client_mode = crc
ms_service_mode = crc
ms_cluster_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
mds_session_blocklist_on_timeout = {blocklist}
mds_session_blocklist_on_evict = {blocklist}
mon_data = {folder}/mon
osd_data = {folder}/osd
mds_data = {folder}/mds
"""

#: For clients: nothing of theirs lies in the lab's folder, and they don't name this machine.
_CLIENT_CONF: Final = """
[global]
fsid = {fsid}
mon_host = {monitors}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
no_mon_config = true
ms_mon_client_mode = crc
ms_client_mode = crc
admin_socket = /tmp/ceph-$name.asok
log_file = /tmp/ceph-$name.log
run_dir = /tmp
pid_file = /tmp/ceph-$name.$pid.pid
{extra}
"""


@dataclass(slots=True)
class CephDaemons:
    """`folder` is theirs alone. Each runs in the foreground as a child of this process."""

    folder: Path
    options: CephOptions
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        """Of the daemons."""
        return self.folder / "ceph.conf"

    @property
    def client_conf(self) -> Path:
        """Of the clients."""
        return self.folder / "client.conf"

    def up(self) -> None:
        """From nothing to an active metadata server. Raises `LabError` with the end of a log."""
        for name in ("mon", "osd", "mds", "run", "log"):
            (self.folder / name).mkdir(parents=True)
        fsid = self._configure()
        self._make_monitor(fsid)
        self.start("mon.a")
        osd = str(uuid.uuid4())
        self.admin("init", osd)
        self._command("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd, "--no-mon-config")
        self.start("osd.0")
        self.start("mds.a")
        self.admin("active")
        timeout = max(30, self.options.session_timeout_s)
        words = {"prefix": "fs set", "fs_name": "cephfs", "var": "session_timeout", "val": str(timeout)}
        self.admin("mon", json.dumps(words))

    def _configure(self) -> str:
        fsid = str(uuid.uuid4())
        v1, v2 = f"v1:{ADDRESS}:{PORTS['v1']}", f"v2:{ADDRESS}:{PORTS['v2']}"
        both = self.options.messenger == "v2"
        facts = {
            "fsid": fsid,
            "folder": self.folder,
            "address": ADDRESS,
            "monitors": f"[{v2},{v1}]" if both else f"[{v1}]",
            "msgr2": str(both).lower(),
            "blocklist": str(self.options.blocklist).lower(),
            "extra": "\n".join(self.options.client_settings),
        }
        self.conf.write_text(_CONF.format(**facts))
        self.client_conf.write_text(_CLIENT_CONF.format(**facts))
        return fsid

    def _make_monitor(self, fsid: str) -> None:
        keyring, monmap = self.folder / "keyring", self.folder / "monmap"
        tool = ("ceph-authtool", str(keyring), "--gen-key", "-n")
        network.run(*tool, "mon.", "--create-keyring", "--cap", "mon", "allow *")
        caps = [word for daemon in ("mon", "osd", "mds", "mgr") for word in ("--cap", daemon, "allow *")]
        network.run(*tool, "client.admin", *caps)
        monitors = next(
            line.split("= ")[1]
            for line in self.conf.read_text().splitlines()
            if line.startswith("mon_host")
        )
        network.run("monmaptool", "--create", "--addv", "a", monitors, "--fsid", fsid, str(monmap))
        self._command("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(monmap), "--keyring", str(keyring))

    def _command(self, *words: str) -> str:
        return network.run(words[0], "-c", str(self.conf), *words[1:])

    def start(self, name: str) -> None:
        """Start a daemon by its name: mon.a, osd.0, mds.a."""
        kind, ident = name.split(".")
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                [program(f"ceph-{kind}"), "-c", str(self.conf), "-i", ident, "-f", "--no-mon-config"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon; SIGKILL is a crash."""
        process = self.running.pop(name, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def alive(self, name: str) -> bool:
        """Whether a daemon runs."""
        return name in self.running and self.running[name].poll() is None

    def admin(self, *words: str) -> str:
        """See ceph_admin.py. Raises `LabError`, with the end of the log of a daemon that ended."""
        try:
            return network.run("/usr/bin/python3", "-I", str(_ADMIN), str(self.conf), *words)
        except LabError as error:
            ended = [name for name in self.running if not self.alive(name)]
            logs = "\n".join(_tail(self.folder / "log" / f"{name}.log") for name in ended)
            raise LabError(f"{str(error).splitlines()[-1]}{logs and ': ' + logs}") from None

    def mds(self, *words: str) -> Any:
        """A command to the metadata server by its admin socket; returns what it answered."""
        said = network.run("ceph", "--admin-daemon", str(self.folder / "run" / "mds.a.asok"), *words)
        return json.loads(said or "null")


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return " | ".join(lines[-3:])
