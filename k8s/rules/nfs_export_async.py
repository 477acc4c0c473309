"""An export with `async`, found in a ConfigMap or in the variables and arguments of a container.

The server then acknowledges writes, commits and renames that are only in its memory. Clients do all they
can, call fsync and get "done", and lose it when the server restarts. No client can see the option: it is
not the harmless mount option of the same name.

It is wrong where the server's memory survives a loss of power.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.objects import KubeObject, dotted, mapping_at
from k8s.pods import Workload
from k8s.words import subject_of

#: a line of exports(5): a path, then clients with options in brackets
_EXPORT = re.compile(
    r"^[ \t]*[\"']?(/[^\s#]{0,500})[ \t][^#\n]{0,300}\([^)\n]{0,200}\basync\b[^)\n]{0,200}\)", re.M
)


def check(case: Case) -> Iterator[Hit]:
    """One hit per export."""
    for obj in case.rows(KubeObject):
        if obj.kind == "ConfigMap":
            for key, text in mapping_at(obj.data, "data").items():
                yield from _exports(obj, ("data", key), text)
    for workload in case.rows(Workload):
        for container in workload.containers:
            for setting in container.settings:
                if setting.owner is workload.obj:
                    yield from _exports(setting.owner, setting.path, setting.text)


def _exports(obj: KubeObject, path: tuple[str | int, ...], text: object) -> Iterator[Hit]:
    for match in _EXPORT.finditer(text[:200_000]) if isinstance(text, str) else ():
        yield Hit(
            subject=subject_of(obj),
            message=f"{obj.label} exports {match[1]} with async: the server answers before data is on"
            " its disk,"
            " and fsync of every client means nothing",
            evidence=(obj.source.reference(path),),
            facts={"export": match[1], "path": dotted(path)},
            key=f"{dotted(path)} {match[1]}",
        )


RULE = Rule(
    id="nfs-export-async",
    title="An NFS server answers before data is on its disk",
    severity=Severity.CRITICAL,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(
        KubeObject,
        Workload,
    ),
    check=check,
    remedy="Write `sync` in the export and reload it: `exportfs -ra`.",
    references=("exports(5): sync, async",),
    bad=(
        """apiVersion: v1
kind: ConfigMap
metadata: {name: exports}
data:
  exports: |
    /export *(rw,async,no_root_squash)
""",
    ),
    good=(
        """apiVersion: v1
kind: ConfigMap
metadata: {name: exports}
data:
  exports: |
    /export *(rw,sync,no_subtree_check)
""",
        """apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data:
  readme: |
    async writes (see docs) are fine
""",
    ),
    exercised_by=frozenset({"StatefulSet", "ConfigMap", "Deployment", "Pod"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
