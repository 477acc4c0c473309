"""Pod templates of any workload → containers, their settings, and what is mounted where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k8s.kinds import BY_NAME
from k8s.objects import (
    KubeObject,
    Path,
    at,
    list_at,
    mapping_at,
    mappings,
    scalar_text,
    text_at,
)

_VARIABLE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_TRAINING_KINDS = frozenset({"PyTorchJob", "TFJob", "MPIJob", "JobSet"})
_TRAINING = re.compile(
    r"\b(torchrun|deepspeed|horovodrun|mpirun|colossalai)\b|accelerate[\s,]+launch|torch\.distributed"
    r"|\b(pre)?train(er|ing)?[\w-]{0,60}\.(py|sh)\b|\bfine_?-?tun\w{0,60}\.(py|sh)\b|lightning"
    r"|\bllamafactory-cli[\s,]+train|\baxolotl\b|\btune[\s,]+run\b",
    re.I,
)
_MAX_REPLICAS = 1_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """A text that a container is given: an argument, a variable, a file of a ConfigMap. `name` is that of
    the variable or file, `owner` the object that holds it."""

    name: str
    text: str
    owner: KubeObject
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class PodVolume:
    """A volume of a pod. `kind` is its field: `persistentVolumeClaim`, `emptyDir`, `nfs`, `ephemeral`,
    `template` (a StatefulSet's) ...; `claim` is the claim's name where there is one."""

    name: str
    kind: str
    spec: Mapping[str, Any]
    path: Path
    claim: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Mount:
    """A volume in a container. `volume` is None where the pod doesn't declare one of that name."""

    place: str
    volume: PodVolume | None
    path: Path
    read_only: bool
    sub_path: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """A container: its image, what it runs with, and its mounts. `settings` are command, arguments and
    variables, then files of ConfigMaps; `environment` maps variables to values, where known."""

    name: str
    image: str
    path: Path
    working_dir: str
    settings: tuple[Setting, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    init: bool = False

    @property
    def command(self) -> str:
        """Command and arguments in one text."""
        return " ".join(s.text for s in self.settings if s.path[-2:-1] in (("command",), ("args",)))

    def expand(self, text: str) -> str | None:
        """The text with its variables replaced; None if one isn't known."""
        missing = False

        def value(match: re.Match[str]) -> str:
            nonlocal missing
            found = self.environment.get(match[1] or match[2] or match[3])
            missing = missing or found is None
            return found or ""

        expanded = _VARIABLE.sub(value, text)
        return None if missing or "$" in expanded or "{{" in expanded else expanded

    def mount_of(self, directory: str) -> Mount | None:
        """The mount that holds an absolute path; None if it is in the container's own file system."""
        best = None
        for mount in self.mounts:
            place = mount.place.rstrip("/") or "/"
            inside = directory == place or directory.startswith(place.rstrip("/") + "/")
            if inside and (best is None or len(place) > len(best.place.rstrip("/"))):
                best = mount
        return best


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A pod template of an object, in how many pods it runs, and whether it trains a model."""

    obj: KubeObject
    path: Path
    containers: tuple[Container, ...]
    volumes: tuple[PodVolume, ...]
    pods: int
    training: bool

    @property
    def namespace(self) -> str:
        """The namespace that its claims are in."""
        return self.obj.namespace


@dataclass(slots=True)
class Configs:
    """ConfigMaps by namespace and name."""

    by_name: dict[tuple[str, str], KubeObject] = field(default_factory=dict)

    def find(self, namespace: str, name: str) -> KubeObject | None:
        """The ConfigMap that a pod of that namespace means; a manifest without namespace fits any."""
        for key in ((namespace, name), ("", name)):
            if key in self.by_name:
                return self.by_name[key]
        if not namespace:
            return next((obj for (_, known), obj in self.by_name.items() if known == name), None)
        return None


def workloads(obj: KubeObject, configs: Configs) -> Iterator[Workload]:
    """The pod templates of an object, none if it has no such."""
    kind = BY_NAME.get((obj.group, obj.kind))
    if kind is None:
        return
    if obj.group == "argoproj.io":
        yield from _argo(obj, configs)
        return
    for template in kind.templates:
        for path in _places(obj.data, template):
            spec = (*path, "spec")
            if mapping_at(obj.data, *spec):
                yield _workload(obj, spec, _pods(obj, path), configs)


def _places(data: Any, template: str) -> Iterator[Path]:
    """Every place that a dotted pattern leads to."""
    places: list[Path] = [()]
    for step in template.split(".") if template else []:
        if step != "*":
            places = [(*place, step) for place in places]
            continue
        wider: list[Path] = []
        for place in places:
            value = at(data, *place)
            keys = (
                range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
            )
            wider += [(*place, key) for key in keys]
        places = wider
    yield from places


def _pods(obj: KubeObject, path: Path) -> int:
    """How many pods run from the template, as far as the manifest says; 1 if it doesn't."""
    if obj.kind == "Pod":
        return 1
    counts = [("replicas",), ("parallelism",), ("minReplicas",), ("numOfHosts",)]
    for depth in range(len(path) - 1, 0, -1):
        for count in counts:
            value = at(obj.data, *path[:depth], *count)
            if isinstance(value, int) and not isinstance(value, bool):
                return max(0, min(value, _MAX_REPLICAS))
    return 2 if obj.kind == "DaemonSet" else 1


def _argo(obj: KubeObject, configs: Configs) -> Iterator[Workload]:
    """Argo Workflows: each template is a container with the volumes of the workflow."""
    spec: Path = ("spec", "workflowSpec") if obj.kind == "CronWorkflow" else ("spec",)
    for index, template in mappings(list_at(obj.data, *spec, "templates")):
        for key in ("container", "script"):
            if isinstance(template.get(key), Mapping):
                path = (*spec, "templates", index)
                yield _workload(obj, spec, 1, configs, containers=[(key, (*path, key))], template=path)


def _workload(
    obj: KubeObject,
    spec: Path,
    pods: int,
    configs: Configs,
    containers: Sequence[tuple[str, Path]] = (),
    template: Path | None = None,
) -> Workload:
    volumes = list(_volumes(obj, spec))
    if template is not None:
        volumes += _volumes(obj, template)
    by_name = {volume.name: volume for volume in volumes}
    places = list(containers)
    if not places:
        for key in ("initContainers", "containers"):
            places += [(key, (*spec, key, i)) for i, _ in mappings(list_at(obj.data, *spec, key))]
    found = tuple(_container(obj, path, key == "initContainers", by_name, configs) for key, path in places)
    return Workload(obj, spec, found, tuple(volumes), pods, _trains(obj, found))


def _trains(obj: KubeObject, containers: Sequence[Container]) -> bool:
    if obj.kind in _TRAINING_KINDS:
        return True
    return any(_TRAINING.search(container.command) for container in containers)


def _volumes(obj: KubeObject, spec: Path) -> Iterator[PodVolume]:
    for index, volume in mappings(list_at(obj.data, *spec, "volumes")):
        path = (*spec, "volumes", index)
        kind = next((k for k, v in volume.items() if k != "name" and isinstance(v, Mapping)), "emptyDir")
        inner = mapping_at(volume, kind)
        claim = text_at(inner, "claimName") if kind == "persistentVolumeClaim" else ""
        yield PodVolume(
            text_at(volume, "name"), kind, inner, (*path, kind) if kind in volume else path, claim,
            inner.get("readOnly") is True,
        )  # fmt: skip
    templates = {
        "StatefulSet": ("spec", "volumeClaimTemplates"),
        "Workflow": (*spec, "volumeClaimTemplates"),
    }
    place = templates.get(obj.kind)
    for index, template in mappings(list_at(obj.data, *place)) if place else ():
        name = text_at(template, "metadata", "name")
        yield PodVolume(name, "template", template, (*place, index) if place else (), name)


def _container(
    obj: KubeObject, path: Path, init: bool, volumes: Mapping[str, PodVolume], configs: Configs
) -> Container:
    data = mapping_at(obj.data, *path)
    settings = [
        Setting("", text, obj, (*path, key, index))
        for key in ("command", "args")
        for index, value in enumerate(list_at(data, key))
        if (text := scalar_text(value))
    ]
    if source := text_at(data, "source"):  # a script of Argo
        settings.append(Setting("source", source, obj, (*path, "source")))
    environment = dict(_environment(obj, data, path, configs))
    settings += environment.values()
    mounts = tuple(_mounts(data, path, volumes))
    settings += _files(obj, mounts, configs)
    return Container(
        text_at(data, "name"),
        text_at(data, "image"),
        path,
        text_at(data, "workingDir"),
        tuple(settings),
        {name: setting.text for name, setting in environment.items()},
        mounts,
        init,
    )


def _environment(
    obj: KubeObject, data: Mapping[str, Any], path: Path, configs: Configs
) -> Iterator[tuple[str, Setting]]:
    """Variables with a value in sight; those from Secrets are left alone."""
    for _, source in mappings(list_at(data, "envFrom")):
        config = configs.find(obj.namespace, text_at(source, "configMapRef", "name"))
        prefix = text_at(source, "prefix")
        for key, value in mapping_at(config.data, "data").items() if config else ():
            if config and isinstance(value, str):
                yield prefix + key, Setting(prefix + key, value, config, ("data", key))
    for index, variable in mappings(list_at(data, "env")):
        name = text_at(variable, "name")
        if text := scalar_text(variable.get("value")):
            yield name, Setting(name, text, obj, (*path, "env", index, "value"))
            continue
        reference = mapping_at(variable, "valueFrom", "configMapKeyRef")
        config = configs.find(obj.namespace, text_at(reference, "name")) if reference else None
        key = text_at(reference, "key")
        if config and (text := text_at(config.data, "data", key)):
            yield name, Setting(name, text, config, ("data", key))


def _mounts(data: Mapping[str, Any], path: Path, volumes: Mapping[str, PodVolume]) -> Iterator[Mount]:
    for index, mount in mappings(list_at(data, "volumeMounts")):
        volume = volumes.get(text_at(mount, "name"))
        read_only = mount.get("readOnly") is True or (volume is not None and volume.read_only)
        place = text_at(mount, "mountPath")
        if place:
            sub_path = text_at(mount, "subPath") or text_at(mount, "subPathExpr")
            yield Mount(place, volume, (*path, "volumeMounts", index), read_only, sub_path)


def _files(obj: KubeObject, mounts: Sequence[Mount], configs: Configs) -> Iterator[Setting]:
    """The files of ConfigMaps that the container mounts."""
    seen: set[str] = set()
    for mount in mounts:
        volume = mount.volume
        if volume is None:
            continue
        sources = [volume.spec] if volume.kind == "configMap" else []
        if volume.kind == "projected":
            sources = [mapping_at(s, "configMap") for _, s in mappings(list_at(volume.spec, "sources"))]
        for source in sources:
            name = text_at(source, "name")
            config = configs.find(obj.namespace, name) if name else None
            if config is None or name in seen:
                continue
            seen.add(name)
            for key, value in mapping_at(config.data, "data").items():
                if isinstance(value, str):
                    yield Setting(key, value, config, ("data", key))
