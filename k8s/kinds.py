"""The kinds of objects that the inspector reads; nothing else is asked of a cluster. Secrets are never."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its API group (empty: core), its plural name in paths, the versions that we understand
    (the first that the cluster serves is used), and where its pod templates stand (dotted; empty if it
    has none; a `*` stands for every item of a list or mapping)."""

    name: str
    group: str
    plural: str
    versions: tuple[str, ...]
    namespaced: bool = True
    templates: tuple[str, ...] = ()


_STORAGE = "storage.k8s.io"
_POD = ("spec.template",)
_TRAINING = "kubeflow.org"
_ROOK = "ceph.rook.io"

KINDS: tuple[Kind, ...] = (
    Kind("StorageClass", _STORAGE, "storageclasses", ("v1",), namespaced=False),
    Kind("VolumeAttributesClass", _STORAGE, "volumeattributesclasses", ("v1", "v1beta1"), namespaced=False),
    Kind("CSIDriver", _STORAGE, "csidrivers", ("v1",), namespaced=False),
    Kind("PersistentVolume", "", "persistentvolumes", ("v1",), namespaced=False),
    Kind("PersistentVolumeClaim", "", "persistentvolumeclaims", ("v1",)),
    Kind("ConfigMap", "", "configmaps", ("v1",)),
    Kind("Pod", "", "pods", ("v1",), templates=("",)),
    Kind("ReplicationController", "", "replicationcontrollers", ("v1",), templates=_POD),
    Kind("Deployment", "apps", "deployments", ("v1",), templates=_POD),
    Kind("StatefulSet", "apps", "statefulsets", ("v1",), templates=_POD),
    Kind("DaemonSet", "apps", "daemonsets", ("v1",), templates=_POD),
    Kind("ReplicaSet", "apps", "replicasets", ("v1",), templates=_POD),
    Kind("Job", "batch", "jobs", ("v1",), templates=_POD),
    Kind("CronJob", "batch", "cronjobs", ("v1",), templates=("spec.jobTemplate.spec.template",)),
    Kind("PyTorchJob", _TRAINING, "pytorchjobs", ("v1",), templates=(
        "spec.pytorchReplicaSpecs.*.template",)),
    Kind("TFJob", _TRAINING, "tfjobs", ("v1",), templates=("spec.tfReplicaSpecs.*.template",)),
    Kind("MPIJob", _TRAINING, "mpijobs", ("v2beta1", "v1"), templates=("spec.mpiReplicaSpecs.*.template",)),
    Kind("Notebook", _TRAINING, "notebooks", ("v1", "v1beta1"), templates=_POD),
    Kind("RayCluster", "ray.io", "rayclusters", ("v1", "v1alpha1"), templates=(
        "spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template")),
    Kind("RayJob", "ray.io", "rayjobs", ("v1", "v1alpha1"), templates=(
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs.*.template",
        "spec.submitterPodTemplate")),
    Kind("RayService", "ray.io", "rayservices", ("v1", "v1alpha1"), templates=(
        "spec.rayClusterConfig.headGroupSpec.template",
        "spec.rayClusterConfig.workerGroupSpecs.*.template")),
    Kind("JobSet", "jobset.x-k8s.io", "jobsets", ("v1alpha2",), templates=(
        "spec.replicatedJobs.*.template.spec.template",)),
    Kind("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "leaderworkersets", ("v1",), templates=(
        "spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate")),
    Kind("Job", "batch.volcano.sh", "jobs", ("v1alpha1",), templates=("spec.tasks.*.template",)),
    # an Argo template is a container beside others, with the volumes of the workflow: inventory.py knows
    Kind("Workflow", "argoproj.io", "workflows", ("v1alpha1",)),
    Kind("WorkflowTemplate", "argoproj.io", "workflowtemplates", ("v1alpha1",)),
    Kind("CronWorkflow", "argoproj.io", "cronworkflows", ("v1alpha1",)),
    Kind("CephBlockPool", _ROOK, "cephblockpools", ("v1",)),
    Kind("CephFilesystem", _ROOK, "cephfilesystems", ("v1",)),
    Kind("CephObjectStore", _ROOK, "cephobjectstores", ("v1",)),
)  # fmt: skip

#: By group and kind, for looking up what an object is.
BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}
