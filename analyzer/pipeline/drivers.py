"""What the catalogue knows of CSI drivers."""

from __future__ import annotations

from k8s import driver_pages


def drivers_text(name: str | None, as_json: bool = False) -> str:
    """A table of all drivers, or all that is known of one. Raises `InputError` naming the nearest if there
    is none of that name."""
    if as_json:
        return driver_pages.to_json(name)
    return driver_pages.table() if name is None else driver_pages.page(name)
