"""Databases in containers, and those of their settings that decide whether a commit survives.

The engine is told by the image's name. A setting is taken from where it weighs most: arguments, then
variables, then files of ConfigMaps; of several in one place the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from analyzer.core.finding import Severity
from k8s.inventory import Inventory, Use
from k8s.objects import KubeObject
from k8s.pods import Container, Setting, Workload

_ENGINES = {
    "postgres": "PostgreSQL",
    "postgresql": "PostgreSQL",
    "postgis": "PostgreSQL",
    "timescaledb": "PostgreSQL",
    "timescaledb-ha": "PostgreSQL",
    "pgvector": "PostgreSQL",
    "spilo": "PostgreSQL",
    "postgresql-repmgr": "PostgreSQL",
    "mysql": "MySQL",
    "mysql-server": "MySQL",
    "mariadb": "MySQL",
    "mariadb-galera": "MySQL",
    "percona": "MySQL",
    "percona-server": "MySQL",
    "percona-xtradb-cluster": "MySQL",
    "etcd": "etcd",
    "redis": "Redis",
    "redis-stack": "Redis",
    "redis-stack-server": "Redis",
    "valkey": "Redis",
    "redis-cluster": "Redis",
    "keydb": "Redis",
    "kafka": "Kafka",
    "cp-kafka": "Kafka",
    "mongo": "MongoDB",
    "mongodb": "MongoDB",
    "cassandra": "Cassandra",
    "clickhouse-server": "ClickHouse",
    "clickhouse": "ClickHouse",
    "elasticsearch": "Elasticsearch",
    "opensearch": "OpenSearch",
    "influxdb": "InfluxDB",
    "neo4j": "Neo4j",
    "cockroach": "CockroachDB",
    "minio": "MinIO",
    "milvus": "Milvus",
    "qdrant": "Qdrant",
    "weaviate": "Weaviate",
    "zookeeper": "ZooKeeper",
}
#: where an engine keeps its data unless told otherwise
DATA = {
    "PostgreSQL": ("/var/lib/postgresql", "/bitnami/postgresql", "/home/postgres"),
    "MySQL": ("/var/lib/mysql", "/bitnami/mysql", "/bitnami/mariadb"),
    "etcd": ("/var/lib/etcd", "/var/run/etcd", "/etcd-data", "/bitnami/etcd"),
    "MongoDB": ("/data/db", "/bitnami/mongodb"),
    "Kafka": ("/var/lib/kafka", "/bitnami/kafka"),
    "Cassandra": ("/var/lib/cassandra", "/bitnami/cassandra", "/cassandra_data"),
}


@dataclass(frozen=True, slots=True)
class Danger:
    """A setting and the values that give durability away. `lost` says what; `loses_all` is True where a
    crash may leave nothing usable, False where only the latest commits are lost. `right` is what to set."""

    engine: str
    key: str
    values: tuple[str, ...]
    severity: Severity
    lost: str
    right: str
    loses_all: bool
    variables: tuple[str, ...] = ()


DANGERS = (
    Danger(
        "PostgreSQL",
        "fsync",
        ("off", "false", "no", "0"),
        Severity.CRITICAL,
        "after a crash of the node the database may be damaged beyond repair",
        "on",
        True,
    ),
    Danger(
        "PostgreSQL",
        "full_page_writes",
        ("off", "false", "no", "0"),
        Severity.HIGH,
        "a crash in the middle of a page write leaves a torn page, unnoticed",
        "on",
        True,
    ),
    Danger(
        "PostgreSQL",
        "synchronous_commit",
        ("off", "false", "no", "0"),
        Severity.MEDIUM,
        "a crash loses the last commits (about three times wal_writer_delay); nothing is damaged",
        "on",
        False,
    ),
    Danger(
        "MySQL",
        "innodb_flush_log_at_trx_commit",
        ("0", "2"),
        Severity.HIGH,
        "a crash loses up to about a second of commits (0: of mysqld, 2: of the node)",
        "1",
        False,
    ),
    Danger(
        "MySQL",
        "sync_binlog",
        ("0",),
        Severity.MEDIUM,
        "after a crash the binary log and the tables disagree, and replicas break",
        "1",
        False,
    ),
    Danger(
        "MySQL",
        "innodb_doublewrite",
        ("off", "0", "false", "detect_only"),
        Severity.HIGH,
        "a crash in the middle of a page write leaves a torn page",
        "ON",
        True,
    ),
    Danger(
        "MySQL",
        "innodb_flush_method",
        ("nosync", "littlesync", "o_direct_no_fsync"),
        Severity.HIGH,
        "data files aren't synced: what the disk caches is lost in a power cut",
        "O_DIRECT",
        True,
    ),
    Danger(
        "etcd",
        "unsafe-no-fsync",
        ("true", "1", ""),
        Severity.CRITICAL,
        "a crash of the node loses what the cluster has acknowledged",
        "false",
        True,
        ("ETCD_UNSAFE_NO_FSYNC",),
    ),
    Danger(
        "Redis",
        "appendfsync",
        ("no",),
        Severity.MEDIUM,
        "a crash loses what the kernel has not written yet, up to half a minute",
        "everysec",
        False,
    ),
    Danger(
        "Kafka",
        "default.replication.factor",
        ("1",),
        Severity.LOW,
        "new topics have one copy, and Kafka leaves syncing to the kernel: a crashed node loses messages",
        "3",
        False,
        ("KAFKA_DEFAULT_REPLICATION_FACTOR", "KAFKA_CFG_DEFAULT_REPLICATION_FACTOR"),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseSetting:
    """A dangerous setting of a database. `value` is one of the few that the danger lists."""

    workload: Workload
    container: Container
    danger: Danger
    value: str
    setting: Setting


def engine_of(container: Container) -> str:
    """The name of the engine that a container runs, empty if it is no database."""
    if container.init:
        return ""
    name = container.image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    return _ENGINES.get(name, "")


def database_settings(inventory: Inventory) -> Iterator[DatabaseSetting]:
    """Every dangerous setting of every database, in the order of the input."""
    for workload in inventory.of(Workload):
        for container in workload.containers:
            engine = engine_of(container)
            for danger in DANGERS if engine else ():
                found = _in_force(container, danger) if danger.engine == engine else None
                if found and found[1].lower() in danger.values:
                    yield DatabaseSetting(workload, container, danger, found[1], found[0])


def data_use(
    inventory: Inventory, workload: Workload, container: Container
) -> tuple[str, Use | None] | None:
    """(data directory, its volume or None if it is in the container's own file system). None if it isn't
    known where the data is."""
    engine = engine_of(container)
    told = _told_directory(container, engine)
    places = [told] if told else list(DATA.get(engine, ()))
    uses = {use.mount: use for use in inventory.uses_of_workload.get(workload, ())}
    if not told:  # a volume below or above one of the usual places
        for place in places:
            for mount in container.mounts:
                if mount.place.rstrip("/") == place or mount.place.startswith(place + "/"):
                    return mount.place, uses.get(mount)
        return None if not places or container.mounts else (places[0], None)
    holding = container.mount_of(told)
    return told, uses.get(holding) if holding else None


def _told_directory(container: Container, engine: str) -> str:
    if engine == "PostgreSQL":
        return container.environment.get("PGDATA", "")
    if engine == "etcd":
        match = re.search(r"--data-dir[=\s]+(/\S+)", container.command)
        return match[1] if match else container.environment.get("ETCD_DATA_DIR", "")
    return ""


def _in_force(container: Container, danger: Danger) -> tuple[Setting, str] | None:
    tiers: dict[int, tuple[Setting, str]] = {}
    settings = container.settings
    for index, setting in enumerate(settings):
        if setting.path[-2:-1] in (("command",), ("args",)):
            following = settings[index + 1] if index + 1 < len(settings) else None
            value = _in_argument(danger.key, setting, following)
            tier = 0
        elif setting.path[-1:] == ("value",) or setting.name in danger.variables:
            value = setting.text.strip() if setting.name in danger.variables else None
            tier = 1
        else:
            value = _in_file(danger.key, setting.text)
            tier = 2
        if value is not None:
            tiers[tier] = (setting, value)
    return tiers[min(tiers)] if tiers else None


def _in_argument(key: str, setting: Setting, following: Setting | None) -> str | None:
    alone = re.fullmatch(rf"-{{1,2}}{_loose(key)}", setting.text.strip())
    if alone:
        same = following is not None and following.path[:-1] == setting.path[:-1]
        text = following.text.strip() if same and following else ""
        return "" if text.startswith("-") else text
    return _last(key, setting.text)


def _in_file(key: str, text: str) -> str | None:
    lines = [line for line in text[:200_000].splitlines() if not line.lstrip().startswith(("#", ";", "//"))]
    return _last(key, "\n".join(lines))


def _last(key: str, text: str) -> str | None:
    if key.replace("-", "_").lower() not in text.replace("-", "_").lower():
        return None
    found = _pattern(key).findall(text)
    return found[-1] if found else None


@lru_cache(maxsize=64)
def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:^|[\s'\"\[,(])-{{0,2}}(?:-c\s*)?{_loose(key)}['\"]?[ \t]*(?:[=:]|[ \t])[ \t]*['\"]?([\w.]+)",
        re.I | re.M,
    )


def _loose(key: str) -> str:
    return re.sub(r"[-_]", "[-_]", re.escape(key).replace(r"\-", "-").replace(r"\_", "_"))


def owner_of(row: DatabaseSetting) -> KubeObject:
    """The object that holds the setting: the workload or a ConfigMap."""
    return row.setting.owner
