"""An NFS mount with `bg`: if the server doesn't answer at once, the mount goes on in the background and is
reported as done.

The pod starts on the empty folder below the mount point and writes to the node's own disk. When the mount
succeeds those files are hidden, and gone with the node. Without `bg` the pod waits until the volume is
there.

It is wrong where the driver waits for the mount by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, hits


def check(case: Case) -> Iterator[Hit]:
    """One hit per option in force."""
    yield from hits(case, "startup")


RULE = Rule(
    id="mount-in-background",
    title="A mount may not be there when the pod starts",
    severity=Severity.LOW,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out of the class and of the volumes that were made from it.",
    references=("nfs(5): bg, fg",),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, bg]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [nfsvers=4.1, fg]""",
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
parameters: {server: nas.example.com, share: /train}
mountOptions: [bg, fg]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod", "ConfigMap"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
