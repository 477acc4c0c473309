"""Which mount options are in force where: on classes, volumes, inline volumes of pods, in parameters and
ConfigMaps, and those that a driver adds unasked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analyzer.core.finding import Change, Hit, Severity
from analyzer.core.rule import Case
from k8s.catalogue import Driver, find_driver
from k8s.inventory import Inventory, StorageClass, Use, Volume
from k8s.objects import KubeObject, Path, at, dotted, list_at, mapping_at, mappings, scalar_text, text_at
from k8s.options import (
    LOCAL,
    Hazard,
    Option,
    groups_of,
    guess_filesystem,
    hazards,
    nfs_version,
    parse_items,
    split,
)
from k8s.pods import Workload
from k8s.words import subject_of, used_by
from k8s.yaml_text import BadYaml, parse

_FSTYPE_KEYS = ("csi.storage.k8s.io/fstype", "fsType", "fstype", "fs")
_NETWORKED = frozenset({"nfs", "smb", "cephfs", "lustre", "juicefs", "glusterfs", "gcsfuse", "fuse"})
_JUICEFS_CONFIG = "juicefs-csi-driver-config"


@dataclass(frozen=True, slots=True, eq=False)
class OptionSet:
    """Mount options that belong together. `filesystem` is how they are read, None if that isn't known;
    `sure` is False where it is only likely. `shared` tells whether several nodes mount the volume,
    `writers` whether anybody writes to it. `implicit` says who adds the options if nobody wrote them."""

    obj: KubeObject
    path: Path
    filesystem: str | None
    sure: bool
    options: tuple[Option, ...]
    shared: bool
    writers: bool
    uses: tuple[Use, ...]
    driver: Driver | None
    implicit: str = ""

    @property
    def version(self) -> str:
        """The NFS version that the options ask for, or that the driver does; empty if neither does."""
        if self.filesystem != "nfs":
            return ""
        added = self.driver.default_options if self.driver else None
        default = [o for text in (added.options if added else ()) for o in split(text, ())]
        return nfs_version(self.options) or nfs_version(default)


def option_sets(inventory: Inventory) -> Iterator[OptionSet]:
    """Every set of options of the inventory, in the order of the input."""
    for storage in inventory.of(StorageClass):
        if storage.provisioner != "kubernetes.io/no-provisioner":  # nobody applies those
            yield from _of_class(inventory, storage)
    for volume in inventory.of(Volume):
        yield from _of_volume(inventory, volume)
    for workload in inventory.of(Workload):
        yield from _of_pod(inventory, workload)
    for obj in inventory.of(KubeObject):
        if obj.kind == "ConfigMap" and obj.name == _JUICEFS_CONFIG:
            yield from _of_juicefs(obj)


def option_hazards(case: Case, *kinds: str) -> Iterator[tuple[OptionSet, Hazard]]:
    """The options in force that are a hazard of these kinds."""
    for group in case.rows(OptionSet):
        for hazard in hazards(group.options, group.filesystem, group.version):
            if hazard.fact.hazard in kinds and not (hazard.fact.shared and not group.shared):
                yield group, hazard


def hits(case: Case, *kinds: str) -> Iterator[Hit]:
    """A hit for every option in force that is a hazard of these kinds. An option that the protocol version
    ignores is none; where the version is open it weighs less."""
    for group, hazard in option_hazards(case, *kinds):
        if hazard.effective is not False:
            yield hit_of(group, hazard)


def hit_of(group: OptionSet, hazard: Hazard) -> Hit:
    """The hit for one option."""
    option, fact = hazard.option, hazard.fact
    severity = fact.severity
    explanation = ""
    if fact.writers and not group.writers:
        severity = Severity.INFO
        explanation = "Nobody writes to the volume, so that there is little to lose."
    elif hazard.effective is None:
        severity = Severity(max(Severity.LOW, severity - 1))
        explanation = (
            "The options leave the NFS version open: with version 3 this holds, with version 4 the option"
            " has no effect. Say `vers=4.1` to settle it."
        )
    if group.implicit:
        message = f"{group.obj.label}: {group.implicit} mounts with {option.text}: {fact.meaning}"
    else:
        message = f"{group.obj.label} mounts with {option.text}: {fact.meaning}"
    return Hit(
        subject=subject_of(group.obj),
        message=message + used_by(group.uses),
        evidence=evidence_of(group, option),
        explanation=explanation,
        facts={"option": option.text, "filesystem": group.filesystem or "unknown",
               "path": dotted(option.path), "uses": len(group.uses)},
        severity=severity,
        remedy=_remedy(group, hazard),
        complete=group.sure and hazard.effective is True,
        key=f"{dotted(option.path[:-1])} {option.name}",
        changes=() if group.implicit else changed_item(group, option, fact.instead),
    )  # fmt: skip


def evidence_of(group: OptionSet, option: Option) -> tuple[str, ...]:
    """Where the option stands, then where some of those stand that mount the volume."""
    users = dict.fromkeys(use.workload.obj.source.reference(use.mount.path) for use in group.uses[:5])
    return (group.obj.source.reference(option.path), *users)


def changed_item(group: OptionSet, option: Option, instead: str) -> tuple[Change, ...]:
    """The edit that takes an option out of its text, or puts another in its place."""
    rest = [o for o in split(option.item, option.path) if o.text != option.text]
    wanted = [o.text for o in rest] + (
        [instead] if instead and instead not in [o.text for o in rest] else []
    )
    others = [o.text for o in group.options if o.path != option.path]
    if instead in others:
        wanted = [text for text in wanted if text != instead]
    return (Change(group.obj.source.reference(), option.path, ",".join(wanted) or None),)


def _remedy(group: OptionSet, hazard: Hazard) -> str:
    instead = f"write `{hazard.fact.instead}` instead" if hazard.fact.instead else "take it out"
    if group.implicit:
        return (
            f"Set `{group.driver.default_options.replaced_by}` yourself, with `hard`"
            if group.driver and group.driver.default_options and group.driver.default_options.replaced_by
            else f"Set the mount options yourself: `{hazard.fact.instead or 'vers=4.1'}`"
        ) + "; volumes that exist keep what they were made with."
    text = f"In {group.obj.label}, {dotted(hazard.option.path)}: {instead}."
    if hazard.option.path[0] == "parameters":
        text += (
            " The parameters of a class that exists can't be changed: make it anew. Volumes that exist keep"
            " theirs: move what is on them to new ones."
        )
    elif hazard.option.path[:2] == ("spec", "csi"):
        text += " The source of a volume that exists can't be changed: make the PersistentVolume anew."
    elif group.obj.kind == "StorageClass":
        text += (
            " Volumes that exist keep the options they were made with: change `spec.mountOptions` of those"
            " PersistentVolumes too, then restart the pods."
        )
    return text


def _of_class(inventory: Inventory, storage: StorageClass) -> Iterator[OptionSet]:
    obj, driver = storage.obj, storage.driver
    claims = inventory.claims_of_class.get(storage, [])
    uses = tuple(inventory.uses(storage))
    found = parse_items(list_at(obj.data, "mountOptions"), ("mountOptions",))
    filesystem, sure = _class_filesystem(storage, found)
    shared = any(c.shared for c in claims) if claims else _shared(driver, filesystem)
    if found:
        yield _set(obj, ("mountOptions",), filesystem, sure, found, shared, uses, driver)
    for key, inner in (driver.option_keys if driver else {}).items():
        text = scalar_text(storage.parameters.get(key))
        path: Path = ("parameters", key)
        if text:
            many = split(text, path)
            yield _set(obj, path, inner or filesystem, True, many, shared or not claims, uses, driver)
    added = driver.default_options if driver else None
    if driver is None or added is None or (added.replaced_by and added.replaced_by in storage.parameters):
        implicit = list(_smb_default(filesystem, found))
    elif added.when_version_3 and not found:
        protocol = scalar_text(storage.parameters.get("protocolType")) or "nfs"
        implicit = list(added.options) if "4" in protocol else []
    elif added.access:
        wanted = [c for c in claims if added.access in c.modes]
        implicit = list(added.options) if wanted else []
        uses = tuple(u for u in uses if u.claim in wanted)
    else:
        implicit = []
    if implicit:
        name = driver.name if driver and added else "SMB's default"
        filesystem = added.filesystem if added else filesystem
        options = [o for text in implicit for o in split(text, ("provisioner",))]
        yield _set(obj, ("provisioner",), filesystem, True, options, True, uses, driver, name)


def _smb_default(filesystem: str | None, found: Sequence[Option]) -> Iterator[str]:
    """SMB gives up by default, unlike NFS."""
    if filesystem == "smb" and not {"hard", "soft"} & {option.name for option in found}:
        yield "soft"


def _of_volume(inventory: Inventory, volume: Volume) -> Iterator[OptionSet]:
    obj = volume.obj
    uses = tuple(
        u for c in inventory.claims_of_volume.get(volume, []) for u in inventory.uses_of_claim.get(c, [])
    )
    modes = {mode for mode in list_at(obj.data, "spec", "accessModes") if isinstance(mode, str)}
    shared = bool(modes & {"ReadWriteMany", "ReadOnlyMany"})
    read_only = modes == {"ReadOnlyMany"}
    found = parse_items(list_at(obj.data, "spec", "mountOptions"), ("spec", "mountOptions"))
    filesystem, sure = _volume_filesystem(volume, found)
    if found:
        path: Path = ("spec", "mountOptions")
        yield _set(obj, path, filesystem, sure, found, shared, uses, volume.driver, read_only=read_only)
    for key, inner in (volume.driver.option_keys if volume.driver else {}).items():
        text = scalar_text(volume.attributes.get(key))
        if text:
            path = ("spec", "csi", "volumeAttributes", key)
            many = split(text, path)
            yield _set(
                obj, path, inner or filesystem, True, many, shared, uses, volume.driver, read_only=read_only
            )


def _of_pod(inventory: Inventory, workload: Workload) -> Iterator[OptionSet]:
    """Inline CSI volumes carry their options in one text."""
    for volume in workload.volumes:
        if volume.kind != "csi":
            continue
        driver = find_driver(text_at(volume.spec, "driver"))
        text = text_at(volume.spec, "volumeAttributes", "mountOptions")
        if not text:
            continue
        path = (*volume.path, "volumeAttributes", "mountOptions")
        found = split(text, path)
        inner = (driver.option_keys.get("mountOptions") if driver else None) or (
            driver.filesystem if driver else None
        )
        filesystem = inner or guess_filesystem(found)
        uses = tuple(u for u in inventory.uses_of_workload.get(workload, ()) if u.mount.volume is volume)
        yield _set(workload.obj, path, filesystem, inner is not None, found, workload.pods > 1,
                   uses, driver, read_only=volume.read_only)  # fmt: skip


def _of_juicefs(obj: KubeObject) -> Iterator[OptionSet]:
    """`mountPodPatch` of the JuiceFS driver overrides the options of volumes."""
    for key, text in mapping_at(obj.data, "data").items():
        if not isinstance(text, str) or "mountPodPatch" not in text:
            continue
        try:
            data, _ = parse(text)
        except BadYaml:
            continue
        for _, patch in mappings(list_at(data, "mountPodPatch")):
            path: Path = ("data", key)
            found = [
                o
                for item in list_at(patch, "mountOptions")
                if isinstance(item, str)
                for o in split(item, path)
            ]
            if found:
                yield _set(obj, path, "juicefs", True, found, True, (), None)


def _set(
    obj: KubeObject,
    path: Path,
    filesystem: str | None,
    sure: bool,
    found: Sequence[Option],
    shared: bool,
    uses: tuple[Use, ...],
    driver: Driver | None,
    implicit: str = "",
    read_only: bool = False,
) -> OptionSet:
    names = [option.name for option in found]
    read_only = read_only or "ro" in names or (bool(uses) and all(use.mount.read_only for use in uses))
    return OptionSet(
        obj, path, filesystem, sure, tuple(found), shared, not read_only, uses, driver, implicit
    )


def _shared(driver: Driver | None, filesystem: str | None) -> bool:
    """Whether a class that nobody claims from is for shared volumes."""
    if driver is not None and driver.shared is not None:
        return driver.shared
    return filesystem in _NETWORKED


def _class_filesystem(storage: StorageClass, found: Sequence[Option]) -> tuple[str | None, bool]:
    """How the options of a class are read, and whether that is sure."""
    fstype = next((t for k in _FSTYPE_KEYS if (t := scalar_text(storage.parameters.get(k)).lower())), "")
    protocol = scalar_text(storage.parameters.get("protocol")).lower()
    driver = storage.driver
    if driver is not None and protocol.startswith("nfs"):
        return "nfs", True
    if driver is None or driver.filesystem is None:
        return (fstype, True) if fstype in LOCAL else (guess_filesystem(found), False)
    if driver.filesystem != "local":
        return driver.filesystem, True
    if fstype in LOCAL:
        return fstype, True
    if fstype:
        return (fstype if groups_of(fstype)[:-1] else None), True
    return "ext4", False  # what drivers make unless asked


def _volume_filesystem(volume: Volume, found: Sequence[Option]) -> tuple[str | None, bool]:
    spec = mapping_at(volume.obj.data, "spec")
    for field in ("nfs", "cephfs", "glusterfs"):
        if field in spec:
            return field, True
    if "azureFile" in spec:
        return "smb", True
    if volume.driver is not None:
        protocol = scalar_text(volume.attributes.get("protocol")).lower()
        if protocol.startswith("nfs"):
            return "nfs", True
        if volume.driver.filesystem not in (None, "local"):
            return volume.driver.filesystem, True
    fstype = (
        next((t for value in spec.values() if (t := text_at(value, "fsType").lower())), "")
        or scalar_text(at(spec, "csi", "fsType")).lower()
    )
    if fstype in LOCAL:
        return fstype, True
    guessed = guess_filesystem(found)
    if guessed is None and volume.driver is not None and volume.driver.filesystem == "local":
        return "ext4", False
    return guessed, False
