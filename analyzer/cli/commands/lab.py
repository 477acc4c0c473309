"""`storage-analyzer lab`: real clusters on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analyzer.cli.app import app
from analyzer.cli.options import ListFormat

lab = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Real storage clusters on this machine: kernel NFS server and clients in seconds. Needs root.",
)
up = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring a cluster up.")
lab.add_typer(up, name="up")
app.add_typer(lab, name="lab")

Capture = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Capture the storage traffic from the first mount on.")
]
Ray = Annotated[bool, typer.Option("--ray", help="Ray too: a head, and a worker in each client.")]
Name = Annotated[str | None, typer.Option("--name", help="Which lab, where several are up.")]


@up.command(name="nfs", short_help="A Linux NFS server and Linux NFS clients.")
def up_nfs(
    clients: Annotated[int, typer.Option(help="Client nodes, 1 to 16.")] = 2,
    server: Annotated[str, typer.Option(help="knfsd (the kernel's) or ganesha.")] = "knfsd",
    version: Annotated[str, typer.Option(help="4.0, 4.1 or 4.2.")] = "4.1",
    lease: Annotated[int, typer.Option(help="Lease time of the server, seconds.")] = 10,
    grace: Annotated[int, typer.Option(help="Grace period of the server, seconds.")] = 10,
    exports: Annotated[str, typer.Option(help="sync or async.")] = "sync",
    delegations: Annotated[bool, typer.Option(help="Whether the server gives delegations.")] = True,
    mount_options: Annotated[
        str, typer.Option(metavar="OPTIONS", help="Added to the mounts: noac, nocto, actimeo=3, soft ...")
    ] = "",
    capture: Capture = None,
    ray: Ray = False,
    name: Annotated[str, typer.Option(help="Name of the lab.")] = "nfs",
) -> None:
    """A Linux NFS server and Linux NFS clients, each a kernel of its own, mounted at /nfs.

    \b
    Examples:
      sudo storage-analyzer lab up nfs
      sudo storage-analyzer lab up nfs --clients 4 --mount-options noac --capture lab.pcapng
      sudo storage-analyzer lab up nfs --server ganesha --lease 20 --grace 20 --name polling
    """
    from analyzer.lab import NfsOptions
    from analyzer.pipeline import lab as jobs

    options = NfsOptions(
        clients=clients,
        server=server,
        version=version,
        lease_s=lease,
        grace_s=grace,
        exports=exports,
        delegations=delegations,
        mount_options=mount_options,
        capture=capture,
        ray=ray,
    )
    jobs.up(name, options)


@up.command(name="cephfs", short_help="A Ceph and CephFS clients, of the kernel or ceph-fuse.")
def up_cephfs(
    clients: Annotated[int, typer.Option(help="Client nodes, 1 to 16.")] = 2,
    client: Annotated[str, typer.Option(help="fuse (ceph-fuse) or kernel.")] = "fuse",
    messenger: Annotated[str, typer.Option(help="v1, or v2 in crc mode.")] = "v2",
    session_timeout: Annotated[int, typer.Option(help="mds_session_timeout, seconds, at least 30.")] = 60,
    blocklist: Annotated[bool, typer.Option(help="Whether OSDs shut out a client that is evicted.")] = True,
    mount_options: Annotated[
        str, typer.Option(metavar="OPTIONS", help="Added to kernel mounts: recover_session=clean ...")
    ] = "",
    client_setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For ceph-fuse: fuse_disable_pagecache=true ..."),
    ] = None,
    capture: Capture = None,
    ray: Ray = False,
    name: Annotated[str, typer.Option(help="Name of the lab.")] = "cephfs",
) -> None:
    """A Ceph monitor, OSD and metadata server, and clients, each a kernel of its own, mounted at /cephfs.

    \b
    Examples:
      sudo storage-analyzer lab up cephfs
      sudo storage-analyzer lab up cephfs --client kernel --messenger v1 --capture lab.pcapng
      sudo storage-analyzer lab up cephfs --client-setting fuse_disable_pagecache=true
    """
    from analyzer.lab import CephOptions
    from analyzer.pipeline import lab as jobs

    options = CephOptions(
        clients=clients,
        client=client,
        messenger=messenger,
        session_timeout_s=session_timeout,
        blocklist=blocklist,
        mount_options=mount_options,
        client_settings=tuple(client_setting or ()),
        capture=capture,
        ray=ray,
    )
    jobs.up(name, options)


@lab.command(short_help="Labs that are up, with nodes, addresses and clocks.")
def status(
    output: Annotated[ListFormat, typer.Option("--format", help="What to print.")] = ListFormat.TERMINAL,
) -> None:
    """Labs that are up: nodes, addresses, and how far each node's clock is from the host's.

    \b
    Examples:
      storage-analyzer lab status
      storage-analyzer lab status --format json
    """
    from analyzer.pipeline import lab as jobs

    jobs.status(output is ListFormat.JSON)


@lab.command(
    name="exec", short_help="Run a command in a node.", context_settings={"allow_interspersed_args": False}
)
def execute(
    node: Annotated[str, typer.Argument(metavar="NODE", help="server, client1 ..., or host.")],
    argv: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command.")],
    timeout: Annotated[float, typer.Option(help="Seconds until it is ended.")] = 600.0,
    stdin: Annotated[bool, typer.Option("-i", "--stdin", help="Give it what comes in here.")] = False,
    name: Name = None,
) -> None:
    """Run a command in a node; ends with the command's own exit code, 124 after the time-out.

    \b
    Examples:
      storage-analyzer lab exec client1 -- cat /proc/self/mountstats
      storage-analyzer lab exec --timeout 5 client2 -- flock /nfs/f true
      echo hello | storage-analyzer lab exec -i client1 -- tee /nfs/f
      storage-analyzer lab exec host -- ip link
    """
    from analyzer.pipeline import lab as jobs

    words = argv[1:] if argv[0] == "--" else argv
    if not words:
        raise typer.BadParameter("no command: lab exec NODE -- CMD...")
    raise typer.Exit(jobs.execute(name, node, words, timeout, stdin))


@lab.command()
def fault(
    node: Annotated[str, typer.Argument(metavar="NODE", help="server, client1 ...")],
    what: Annotated[
        str,
        typer.Argument(
            metavar="FAULT",
            help="freeze, thaw, kill, start, partition, heal, delay MS, loss PCT, evict, restart, stop.",
        ),
    ],
    amount: Annotated[
        float | None, typer.Argument(metavar="[AMOUNT]", help="Milliseconds or percent.")
    ] = None,
    name: Name = None,
) -> None:
    """Hurt a node, or mend it.

    \b
    freeze     stop it and its clock, as a paused virtual machine; thaw lets it go on
    kill       a power cut: its memory is lost, its disk stays; start boots it again
    partition  take it off the storage network; heal puts it back and ends delay and loss
    delay MS   what it sends comes MS milliseconds later; loss PCT loses a share of it
    restart    of the server: stop the service and start it again; stop ends it, start brings it back
               (of CephFS it is the metadata server that this is about)
    evict      a CephFS client: its session is ended by the metadata server

    \b
    Examples:
      storage-analyzer lab fault client1 freeze
      storage-analyzer lab fault client2 delay 20
      storage-analyzer lab fault server restart
    """
    from analyzer.pipeline import lab as jobs

    jobs.fault(name, node, what, amount)


@lab.command(short_help="Take labs down; nothing of them is left.")
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Which labs.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, and what killed ones left.")] = False,
) -> None:
    """Take labs down; nothing of them is left. Without a name: the one that is up.

    \b
    Examples:
      storage-analyzer lab down
      storage-analyzer lab down --all
    """
    from analyzer.pipeline import lab as jobs

    jobs.down(names or [], every)
