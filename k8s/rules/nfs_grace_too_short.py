"""A configuration of NFS-Ganesha whose grace period is shorter than its lease, or that has none.

After a restart clients have the grace period to ask for their locks again. Those that were idle notice the
restart only when they renew, up to a whole lease later. With a grace period below the lease they come too
late: another client may have the lock by then, and two writers believe that it is theirs. `Graceless =
true` takes the period away altogether.

It is wrong where no client holds locks or opens across a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.core.finding import Blame, Confidence, Hit, Severity
from analyzer.core.rule import Case, Rule
from k8s.objects import KubeObject, mapping_at
from k8s.words import subject_of

_SETTING = re.compile(
    r"^[ \t]*(Lease_Lifetime|Grace_Period|Graceless)[ \t]*=[ \t]*(\w+)[ \t]*;", re.I | re.M
)
_DEFAULT_S = {"lease_lifetime": 60, "grace_period": 90}


def check(case: Case) -> Iterator[Hit]:
    """One hit per configuration."""
    for obj in case.rows(KubeObject):
        if obj.kind != "ConfigMap":
            continue
        for key, text in mapping_at(obj.data, "data").items():
            found = (
                {m[1].lower(): m[2].lower() for m in _SETTING.finditer(text)}
                if isinstance(text, str)
                else {}
            )
            if not found:
                continue
            seconds = {name: int(found[name]) if found.get(name, "").isdecimal() else default
                       for name, default in _DEFAULT_S.items()}  # fmt: skip
            lease_s, grace_s = seconds["lease_lifetime"], seconds["grace_period"]
            if found.get("graceless") in ("true", "yes", "1"):
                said = "has no grace period (Graceless)"
            elif grace_s < lease_s:
                said = f"has a grace period of {grace_s} s, shorter than the lease of {lease_s} s"
            else:
                continue
            yield Hit(
                subject=subject_of(obj),
                message=f"{obj.label}: the NFS server {said}: clients can lose locks when it restarts",
                evidence=(obj.source.reference(("data", key)),),
                facts={"lease_s": lease_s, "grace_s": grace_s},
                key=key,
            )


RULE = Rule(
    id="nfs-grace-too-short",
    title="An NFS server gives clients less time to reclaim locks than their lease",
    severity=Severity.HIGH,
    confidence=Confidence.HIGH,
    blame=Blame.SERVER,
    reads=(KubeObject,),
    check=check,
    remedy="Set `Grace_Period` to `Lease_Lifetime` at least; the defaults are 90 and 60 seconds.",
    references=("NFS-Ganesha: ganesha-core-config(8), NFSv4 block", "RFC 8881, section 8.4.2.1"),
    bad=(
        """apiVersion: v1
kind: ConfigMap
metadata: {name: ganesha}
data:
  ganesha.conf: |
    NFSv4 {
      Lease_Lifetime = 120;
      Grace_Period = 30;
    }
""",
        """apiVersion: v1
kind: ConfigMap
metadata: {name: ganesha}
data:
  ganesha.conf: |
    NFSv4 {
      Graceless = true;
    }
""",
    ),
    good=(
        """apiVersion: v1
kind: ConfigMap
metadata: {name: ganesha}
data:
  ganesha.conf: |
    NFSv4 {
      Lease_Lifetime = 60;
      Grace_Period = 90;
    }
""",
    ),
    exercised_by=frozenset({"ConfigMap"}),
    follows_state=False,  # each hit stands on the object that it cites
    about="object",
)
