"""An NFS mount whose `rsize` or `wsize` is below 64 KiB.

Guides for old servers set them to 8 or 32 KiB. Client and server agree on a megabyte by themselves today; a
small value means many more round trips for the same checkpoint or data set.

It is wrong where a server, or a network device on the way, can't take more.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "slow")


RULE = Rule(
    id="mount-small-transfers",
    title="A network mount reads or writes in small pieces",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("nfs(5): rsize, wsize",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, wsize=32768]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, wsize=1048576]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
