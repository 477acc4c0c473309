"""NFSv4 in the lab: the server's and the clients' side."""

from __future__ import annotations

from typing import Final

from analyzer.lab.node import UmlNode
from analyzer.lab.options import NfsOptions

MOUNT: Final = "/nfs"
PORT: Final = 2049
DISK_MB: Final = 512

#: Both servers keep files and their own record of clients on the disk, which survives a power cut.
_DISK: Final = """
mkdir -p /disk; mount -t ext4 -o noatime /dev/ubda /disk
mkdir -p /disk/export /disk/state; chmod 1777 /disk/export
"""

_KNFSD: Final = """
modprobe -d "$LAB_STATE/modules" nfsd
mkdir -p /export /var/lib/nfs
mount --bind /disk/export /export
mount --bind /disk/state /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /var/lib/nfs/nfsdcld
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check,{exports})' >/etc/exports
echo {delegations} >/proc/sys/fs/leases-enable
nfsdcld
exportfs -a
rpc.mountd -N 3
"""

_KNFSD_START: Final = "rpc.nfsd -N 3 -V 4.0 -V 4.1 -V 4.2 -G {grace} -L {lease} 4"
_KNFSD_STOP: Final = "rpc.nfsd 0"

_GANESHA_CONF: Final = """
NFS_CORE_PARAM {{
  Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = {address}; mount_path_pseudo = true;
}}
NFSv4 {{
  Lease_Lifetime = {lease}; Grace_Period = {grace}; Minor_Versions = 0, 1, 2; Delegations = {delegations};
  RecoveryBackend = fs; RecoveryRoot = /disk/state/ganesha;
}}
EXPORT {{
  Export_Id = 1; Path = /disk/export; Pseudo = /; FSAL {{ Name = VFS; }}
  Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;
}}
LOG {{ Default_Log_Level = EVENT; }}
"""

_GANESHA: Final = """
mkdir -p /disk/state/ganesha /var/run/ganesha /var/lib/nfs/ganesha
cat >/tmp/ganesha.conf <<'END'
{conf}
END
"""

_GANESHA_START: Final = r"""
setsid ganesha.nfsd -F -f /tmp/ganesha.conf -L /tmp/ganesha.log -p /tmp/ganesha.pid \
  </dev/null >/dev/null 2>&1 &
for n in $(seq 200); do
  ss -Hltn "sport = :2049" | grep -q . && break
  sleep 0.05
done
ss -Hltn "sport = :2049" | grep -q . && ! grep -q "CONFIG :CRIT" /tmp/ganesha.log && exit 0
grep "CONFIG :CRIT" /tmp/ganesha.log >&2 || tail -5 /tmp/ganesha.log >&2
exit 1
"""
_GANESHA_STOP: Final = """
kill "$(cat /tmp/ganesha.pid)" 2>/dev/null || true
for n in $(seq 100); do ss -Hltn "sport = :2049" | grep -q . || exit 0; sleep 0.05; done
kill -9 "$(cat /tmp/ganesha.pid)"
"""

_CLIENT: Final = """
modprobe -d "$LAB_STATE/modules" nfsv4
echo "$LAB_NODE-id" >/sys/module/nfs/parameters/nfs4_unique_id
mkdir -p {mount}
"""


def server_setup(node: UmlNode, options: NfsOptions) -> None:
    """Everything before the service: disk, export, settings. Once after each boot."""
    if options.server == "knfsd":
        facts = {"exports": options.exports, "delegations": int(options.delegations)}
        node.run(_DISK + _KNFSD.format(**facts))
        return
    conf = _GANESHA_CONF.format(
        address=node.address,
        lease=options.lease_s,
        grace=options.grace_s,
        delegations=str(options.delegations).lower(),
    )
    node.run(_DISK + _GANESHA.format(conf=conf))


def server_start(node: UmlNode, options: NfsOptions) -> None:
    """Start the service."""
    if options.server == "knfsd":
        node.run(_KNFSD_START.format(grace=options.grace_s, lease=options.lease_s))
    else:
        node.run(_GANESHA_START)


def server_stop(node: UmlNode, options: NfsOptions) -> None:
    """Stop the service; the node stays."""
    node.run(_KNFSD_STOP if options.server == "knfsd" else _GANESHA_STOP)


def client_setup(node: UmlNode) -> None:
    """Once after each boot: an identity of its own, whatever the mount."""
    node.run(_CLIENT.format(mount=MOUNT))


def client_mount(node: UmlNode, server: str, options: NfsOptions) -> None:
    """Mount the export at `/nfs`."""
    words = [f"vers={options.version}", f"addr={server}", f"clientaddr={node.address}", "sec=sys"]
    words += [options.mount_options] if options.mount_options else []
    node.run(f"mount -i -t nfs4 -o {','.join(words)} {server}:/ {MOUNT}", timeout_s=60)


def client_unmount(node: UmlNode) -> None:
    """Unmount, lazily if something still holds it."""
    node.run(f"umount {MOUNT} || umount -l {MOUNT}", timeout_s=5)
