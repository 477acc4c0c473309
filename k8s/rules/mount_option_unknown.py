"""A mount option that the file system doesn't know, close to one that it does.

Kubernetes passes mount options on without a look. What mount(8) doesn't know makes the mount fail, and the
pod waits in ContainerCreating; a few drivers drop it instead, and the setting is silently not there.

It is wrong where a newer kernel or client knows an option that this tool doesn't: only names that look like
a known one with a typing error are reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.mounts import OptionSet, changed_item
from k8s.objects import dotted
from k8s.options import misspelled
from k8s.words import subject_of


def check(case: Case) -> Iterator[Hit]:
    """One hit per option that looks like a known one."""
    for group in case.rows(OptionSet):
        for option, meant in misspelled(group.options, group.filesystem):
            right = f"{meant}={option.value}" if option.value else meant
            yield Hit(
                subject=subject_of(group.obj),
                message=f"{group.obj.label} sets the mount option {option.name}, which {group.filesystem}"
                f" doesn't know: the mount fails; {meant} was probably meant",
                evidence=(group.obj.source.reference(option.path),),
                facts={"option": option.name, "meant": meant, "path": dotted(option.path)},
                remedy=f"Write `{meant}` instead of `{option.name}`.",
                complete=group.sure,
                key=f"{dotted(option.path[:-1])} {option.name}",
                changes=changed_item(group, option, right),
            )


RULE = Rule(
    id="mount-option-unknown",
    title="A mount option looks misspelled",
    severity=Severity.MEDIUM,
    confidence=Confidence.MEDIUM,
    blame=Blame.CONFIGURATION,
    reads=(OptionSet,),
    check=check,
    remedy="Correct the spelling.",
    references=("Kubernetes: mount options are not validated", "nfs(5)", "ext4(5)", "mount.cifs(8)"),
    bad=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [nfsvers=4.1, ncconnect=8]""",
    ),
    good=(
        """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: shared}
provisioner: nfs.csi.k8s.io
mountOptions: [nfsvers=4.1, nconnect=8, x-unheard-of]""",
    ),
    exercised_by=frozenset({"StorageClass", "PersistentVolume", "Pod"}),
    follows_state=False,  # each hit stands on the option that it cites
    about="object",
)
