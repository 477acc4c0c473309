"""A network mount whose transport can damage data unnoticed.

NFS over UDP cuts a write into fragments that are numbered with 16 bits: on a fast link the numbers come
round within the time in which fragments are joined, and pieces of two writes become one. Checksums of UDP
catch most of it, not all. CephFS with `nocrc` writes data without its checksum.

It is wrong on a link so slow that the numbers can't come round; there TCP does no harm either.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "transport")


RULE = Rule(
    id="mount-transport-unsafe",
    title="Data travels without protection against damage",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("nfs(5): using NFS over UDP on high-speed links", "mount.ceph(8): nocrc"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=3, proto=udp]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "nocrc"}""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=3, proto=tcp]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [udp, tcp]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: cephfs}
provisioner: rook-ceph.cephfs.csi.ceph.com
parameters: {kernelMountOptions: "ms_mode=crc"}""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
