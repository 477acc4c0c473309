"""The rows that are worked out from the inventory, for rules to read beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from k8s.checkpoints import CheckpointDir, SyncOff, checkpoint_dirs, syncs_off
from k8s.databases import DatabaseSetting, database_settings
from k8s.inventory import Inventory, build
from k8s.mounts import OptionSet, option_sets
from k8s.objects import Delivery
from k8s.qos import ClassQos, class_qos

_DERIVED: Final[dict[type[Any], Callable[[Inventory], Iterable[Any]]]] = {
    OptionSet: option_sets,
    ClassQos: class_qos,
    CheckpointDir: checkpoint_dirs,
    SyncOff: syncs_off,
    DatabaseSetting: database_settings,
}


def inventory(delivery: Delivery) -> Inventory:
    """The inventory with every derived row."""
    found = build(delivery)
    for row_type, derive in _DERIVED.items():
        found.rows[row_type] = list(derive(found))
    return found
