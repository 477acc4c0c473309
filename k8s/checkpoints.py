"""Where training jobs write checkpoints, as far as arguments, variables and mounted files tell.

A place counts only if a program is told to write there (`--output_dir`, `CHECKPOINT_DIR`,
`default_root_dir: ...`). What is only read (`--load`, `resume_from_checkpoint`) doesn't.
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from k8s.catalogue import find_driver
from k8s.inventory import Inventory, Use
from k8s.objects import text_at
from k8s.pods import Container, Setting, Workload

_NAME = (
    r"(?:(?:[\w-]{0,40}[_-])?(?:output|save|checkpoints?|ckpts?)[_-](?:dir|directory|path|folder|root)"
    r"|default_root_dir|hydra\.run\.dir|storage_path|dirpath|checkpoint_save_path|save_folder)"
)
_ONLY_READ = re.compile(
    r"(^|[_-])(load|init|initial|resume|restore|pretrained|from|input|base|source|src|data|dataset|model_name"
    r"|tokenizer|test|eval)([_-]|$)",
    re.I,
)
_FLAG = re.compile(rf"--?(?:[\w]+\.)*({_NAME})", re.I)
_ASSIGNED = re.compile(
    rf"(?:^|[\s'\"\[{{(,;.]|--)({_NAME})['\"]?\s*(?:[:=]|\s(?=[/$]))\s*['\"]?((?:[/$]|\.{{1,2}}/)[^\s'\",;)}}\]]*)",
    re.I | re.M,
)
_VARIABLE = re.compile(
    r"(?:\w+_)?(?:CHECKPOINTS?|CKPTS?|OUTPUT|SAVE)_(?:DIR|DIRECTORY|PATH|FOLDER|ROOT)|CHECKPOINTS?"
    r"|(?:DIR|PATH)_(?:CHECKPOINTS?|CKPTS?|OUTPUT)",
    re.I,
)
_MEGATRON_SAVE = re.compile(r"(?:^|\s)--save[=\s]+(\S+)")
_SYNC_OFF = re.compile(
    r"(?:^|[\s'\"\[{(,.]|--)(sync_files|use_fsync|file_io_sync|checkpoint_fsync)['\"]?\s*[:=]\s*['\"]?"
    r"(false|off|no|0)\b",
    re.I | re.M,
)
_MAX_TEXT = 200_000
_MAX_NAME = 120
_JOBS = frozenset(
    {"Job", "CronJob", "RayJob", "RayCluster", "Notebook", "JobSet", "LeaderWorkerSet", "Workflow"}
)
_NOT_FOR_DATA = frozenset({"configMap", "secret", "projected", "downwardAPI"})


class Home(enum.Enum):
    """What a directory is on."""

    VOLUME = "a volume"
    CONTAINER = "the container's own file system"
    POD = "a volume that is deleted with the pod"
    NODE = "the disk of whichever node the pod runs on"
    OBJECT = "an object store mounted by FUSE"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointDir:
    """A directory that a container is told to write checkpoints to. `name` is the flag, key or variable;
    `sure` is False where the directory is relative to one that the image decides on."""

    workload: Workload
    container: Container
    setting: Setting
    name: str
    directory: str
    home: Home
    use: Use | None
    sure: bool


@dataclass(frozen=True, slots=True, eq=False)
class SyncOff:
    """A setting that keeps a checkpoint writer from syncing."""

    workload: Workload
    setting: Setting
    name: str
    value: str


def checkpoint_dirs(inventory: Inventory) -> Iterator[CheckpointDir]:
    """Every such directory, once per container."""
    for workload in inventory.of(Workload):
        uses = {use.mount: use for use in inventory.uses_of_workload.get(workload, ())}
        for container in workload.containers:
            if container.init:
                continue
            seen: set[str] = set()
            for setting, name, text in _told(workload, container):
                directory, sure = _absolute(container, text)
                if not directory or directory in seen:
                    continue
                seen.add(directory)
                mount = container.mount_of(directory) if directory.startswith("/") else None
                use = uses.get(mount) if mount else None
                home = _home(container, directory, use)
                yield CheckpointDir(workload, container, setting, name, directory, home, use, sure)


def syncs_off(inventory: Inventory) -> Iterator[SyncOff]:
    """Every setting that turns off syncing of checkpoints."""
    for workload in inventory.of(Workload):
        for container in workload.containers:
            for setting in container.settings:
                for match in _SYNC_OFF.finditer(setting.text[:_MAX_TEXT]):
                    if not _commented(setting.text, match.start(1)):
                        yield SyncOff(workload, setting, match[1], match[2])


def _told(workload: Workload, container: Container) -> Iterator[tuple[Setting, str, str]]:
    """(setting, name, directory as written) of what may concern checkpoints."""
    settings = container.settings
    megatron = "megatron" in container.command.lower() or "pretrain_" in container.command
    for index, setting in enumerate(settings):
        argument = setting.path[-2:-1] in (("command",), ("args",))
        if argument:
            name, equals, value = setting.text.strip().partition("=")
            if (
                not equals
                and index + 1 < len(settings)
                and settings[index + 1].path[:-1] == setting.path[:-1]
            ):
                value = settings[index + 1].text.strip()
            flag = _FLAG.fullmatch(name) if len(name) < _MAX_NAME else None
            if flag and value and not value.startswith("-") and _concerns(workload, flag[1]):
                yield setting, name, value
                continue
            if megatron and name == "--save" and value.startswith(("/", "$", ".")):
                yield setting, name, value
                continue
        elif setting.path[-1:] == ("value",) or setting.name.isupper():
            if _VARIABLE.fullmatch(setting.name) and _concerns(workload, setting.name):
                yield setting, setting.name, setting.text.strip()
            continue
        yield from _in_text(workload, setting, megatron)


def _in_text(workload: Workload, setting: Setting, megatron: bool) -> Iterator[tuple[Setting, str, str]]:
    text = setting.text[:_MAX_TEXT]
    for match in _ASSIGNED.finditer(text):
        if _concerns(workload, match[1]) and not _commented(text, match.start(1)):
            yield setting, match[1], match[2]
    for match in _MEGATRON_SAVE.finditer(text) if megatron else ():
        if match[1].startswith(("/", "$", ".")):
            yield setting, "--save", match[1].strip("\"'")


def _concerns(workload: Workload, name: str) -> bool:
    if _ONLY_READ.search(name):
        return False
    return workload.training or (
        workload.obj.kind in _JOBS and re.search("checkpoint|ckpt", name, re.I) is not None
    )


def _commented(text: str, at: int) -> bool:
    start = text.rfind("\n", 0, at) + 1
    return text[start:at].lstrip().startswith(("#", "//", ";"))


def _absolute(container: Container, text: str) -> tuple[str, bool]:
    """(the directory, whether that is sure); empty if it can't be told, or is no directory of this file
    system."""
    directory = container.expand(text.strip("\"'"))
    if not directory or "://" in directory:
        return "", False
    if directory.startswith("/"):
        return posixpath.normpath(directory), True
    if container.working_dir.startswith("/"):
        return posixpath.normpath(posixpath.join(container.working_dir, directory)), True
    return directory, False


def _home(container: Container, directory: str, use: Use | None) -> Home:
    if not directory.startswith("/"):  # relative to where the image starts: on a volume only if that is one
        kinds = {mount.volume.kind for mount in container.mounts if mount.volume}
        return Home.UNKNOWN if kinds - _NOT_FOR_DATA - {"emptyDir"} else Home.CONTAINER
    if use is None:
        return Home.UNKNOWN if container.mount_of(directory) else Home.CONTAINER
    volume = use.mount.volume
    if volume is None or volume.kind in _NOT_FOR_DATA:
        return Home.UNKNOWN
    if volume.kind in ("emptyDir", "ephemeral"):
        return Home.POD
    if volume.kind == "hostPath":
        return Home.NODE
    driver = use.claim.driver if use.claim else None
    if volume.kind == "csi":
        driver = find_driver(text_at(volume.spec, "driver"))
        return Home.OBJECT if driver and driver.kind == "object" else Home.UNKNOWN
    return Home.OBJECT if driver and driver.kind == "object" else Home.VOLUME
