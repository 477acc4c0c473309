"""PolicyReport (`wgpolicyk8s.io/v1alpha2`): findings as objects of a cluster, for `kubectl apply -f`.

One PolicyReport per namespace, and one ClusterPolicyReport for objects that have none. A List in JSON,
which kubectl takes as it is. Times are left out: the same input gives the same report.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

import orjson

from analyzer.core.finding import Finding, Severity, Verdict
from analyzer.report.format import Format
from analyzer.report.view import ReportView

_API = "wgpolicyk8s.io/v1alpha2"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_RESULTS = 2000  # an object of a cluster is at most about a megabyte
#: kinds that belong to no namespace
_CLUSTER_WIDE = frozenset(
    {"StorageClass", "VolumeAttributesClass", "PersistentVolume", "CSIDriver", "file"}
)


def render(view: ReportView) -> bytes:
    """The findings by namespace; rules that couldn't be judged are errors of the cluster's report."""
    by_namespace: dict[str, list[dict[str, Any]]] = defaultdict(list)
    by_namespace[""] = [
        {
            "source": "storage-analyzer",
            "policy": j.rule,
            "rule": j.rule,
            "result": "error",
            "message": j.reason,
        }
        for j in view.judgements
        if j.verdict is Verdict.UNKNOWN
    ]
    for finding in view.findings:
        namespace, name = _placed(finding)
        by_namespace[namespace].append(_result(finding, namespace, name))
    items = [_report(namespace, results) for namespace, results in sorted(by_namespace.items())]
    document = {"apiVersion": "v1", "kind": "List", "items": items}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _placed(finding: Finding) -> tuple[str, str]:
    """(namespace or empty, name) of the finding's object."""
    namespace, slash, name = finding.subject.name.partition("/")
    if slash and finding.subject.kind not in _CLUSTER_WIDE and _NAMESPACE.fullmatch(namespace):
        return namespace, name
    return "", finding.subject.name


def _result(finding: Finding, namespace: str, name: str) -> dict[str, Any]:
    resource = {
        "kind": finding.subject.kind,
        "name": name,
        **({"namespace": namespace} if namespace else {}),
    }
    result = "fail" if finding.severity >= Severity.MEDIUM else "warn"
    return {
        "source": "storage-analyzer",
        "policy": finding.rule,
        "rule": finding.rule,
        "category": finding.blame.value,
        "severity": str(finding.severity),
        "result": result,
        "message": finding.title,
        **({} if finding.subject.kind == "file" else {"resources": [resource]}),
        "properties": {
            "fingerprint": finding.fingerprint,
            "confidence": str(finding.confidence),
            "evidence": ", ".join(finding.evidence[:5]),
            "remedy": finding.remedy,
        },
    }


def _report(namespace: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter(result["result"] for result in results)
    metadata: dict[str, Any] = {
        "name": "storage-analyzer",
        "labels": {"app.kubernetes.io/managed-by": "storage-analyzer"},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": _API,
        "kind": "PolicyReport" if namespace else "ClusterPolicyReport",
        "metadata": metadata,
        "summary": {name: counts[name] for name in ("pass", "fail", "warn", "error", "skip")},
        "results": results[:_MAX_RESULTS],
    }


FORMAT = Format("policyreport", "policyreport.json", render)
