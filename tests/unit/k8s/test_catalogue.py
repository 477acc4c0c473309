"""The catalogue holds to its schemas, knows no driver twice, and its pages say what is unknown."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import orjson
import pytest

import k8s.catalogue
from analyzer.core.errors import InputError
from analyzer.pipeline.drivers import drivers_text
from k8s.catalogue import drivers, find_driver, options
from k8s.yaml_text import parse

HERE = Path(k8s.catalogue.__file__).parent


@pytest.mark.parametrize("name", ["drivers", "options"])
def test_data_holds_to_its_schema(name: str) -> None:
    data, duplicates = parse((HERE / f"{name}.yaml").read_text("utf-8"))
    assert not duplicates
    jsonschema.validate(data, orjson.loads((HERE / f"{name}.schema.json").read_bytes()))


def test_no_name_means_two_drivers() -> None:
    names = [name for driver in drivers() for name in {driver.name, *driver.aliases}]
    twice = {name for name in names if names.count(name) > 1}
    # the old plugin's name is an alias of the driver that took its place, and an entry of its own
    assert twice <= {"kubernetes.io/portworx-volume"}
    assert len(drivers()) >= 66


def test_names_match_exactly_then_by_alias_then_by_suffix() -> None:
    def found(name: str) -> str | None:
        driver = find_driver(name)
        return driver.name if driver else None

    assert found("rook-ceph.rbd.csi.ceph.com") == "rbd.csi.ceph.com"
    assert found("netapp.io/trident") == "csi.trident.netapp.io"
    assert found("EBS.csi.aws.com") is None
    assert found("xrbd.csi.ceph.com") is None
    assert found("") is None


def test_replacements_and_keys_refer_to_what_is_there() -> None:
    for driver in drivers():
        assert not driver.replaced_by or find_driver(driver.replaced_by), driver.name
        assert driver.sources or not driver.has_knob, f"{driver.name}: a fact needs a source"
        for key in driver.class_keys or () if not driver.in_tree else ():
            for other in key.requires or {}:
                assert driver.key(other), f"{driver.name}: {key.name} needs {other}"


def test_what_is_reported_is_known_in_its_group() -> None:
    for name, group in options().items():
        for fact in set(group.options.values()):
            if group.known is not None and fact.opposite:
                assert fact.opposite in group.known, f"{name}: {fact.opposite}"
            if fact.instead:
                other = group.options.get(fact.instead.partition("=")[0])
                assert other is None or not other.matters(fact.instead.partition("=")[2]), fact.name


def test_pages_fit_and_say_what_is_unknown() -> None:
    table = drivers_text(None)
    assert max(map(len, table.splitlines())) <= 80
    for driver in drivers():
        page = drivers_text(driver.name)
        long = [line for line in page.splitlines() if len(line) > 80 and len(line.split()) > 3]
        assert not long, long
    assert "not known" in drivers_text("parallelstore")
    assert orjson.loads(drivers_text(None, as_json=True))[0]["name"] == drivers()[0].name
    assert orjson.loads(drivers_text("ebs", as_json=True))["name"] == "ebs.csi.aws.com"


@pytest.mark.parametrize("name", ["csi", "", "nothing-like-it", "\x1b[31m"])
def test_unclear_names_get_a_hint(name: str) -> None:
    with pytest.raises(InputError, match="lists all"):
        drivers_text(name)
