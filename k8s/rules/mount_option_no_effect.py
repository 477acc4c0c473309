"""A mount option that the NFS version in use ignores.

`nolock` and `local_lock` belong to NFS 2 and 3; with NFS 4 the kernel clears them, and locks work between
nodes as ever. Whoever set the option meant to switch locks off, or copied it from an old guide: both are
worth a look, for the next person may change the version and not the option.

It is never harmful by itself, and only information.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, changed_item, option_hazards
from k8s.objects import dotted
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per option."""
    for group, hazard in option_hazards(case, "locks"):
        if hazard.effective is not False:
            continue
        option = hazard.option
        yield Hit(
            subject=subject_of(group.obj),
            message=f"{group.obj.label} sets {option.text}, which has no effect with NFS {group.version}",
            evidence=(group.obj.source.reference(option.path),),
            facts={"option": option.text, "version": group.version, "path": dotted(option.path)},
            remedy=f"Take `{option.text}` out.",
            key=f"{dotted(option.path[:-1])} {option.name}",
            changes=changed_item(group, option, ""),
        )


RULE = Rule(
    id="mount-option-no-effect",
    title="A mount option has no effect with this protocol version",
    severity=Severity.INFO,
    confidence=Confidence.HIGH,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Take the option out.",
    references=("nfs(5): options for NFS versions 2 and 3 only", "Linux fs/nfs/fs_context.c"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [nfsvers=4.1, nolock]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [nfsvers=3, nolock]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
