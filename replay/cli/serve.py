"""`replay serve`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import (
    AcceptanceFile,
    ClusterSnapshot,
    CurrentSet,
    MinorVersion,
    OwnerLabel,
    Workers,
)

SERVE_EPILOG = (
    "Example: replay serve --store audit.store --follow /var/log/kubernetes/audit --trial strict=manifests/next "
    "--current manifests/current --cluster cluster.jsonl\n\n"
    "Example: replay serve --store audit.store --listen 127.0.0.1:8443 --trial strict=manifests/next\n\n"
    "Exit code: 0 it was stopped by Ctrl-C or SIGTERM, 2 or more an error."
)


def serve(
    *,
    store: Annotated[str, typer.Option(metavar="DIR", help="Store with the log. It is created if it does not exist.")],
    trial: Annotated[
        list[str],
        typer.Option(metavar="NAME=PATH", help="Candidate on trial: its name and its manifests. Repeatable."),
    ],
    current: CurrentSet = None,
    cluster: ClusterSnapshot = None,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLUSTER=FILE",
            help="Snapshot of one cluster of a multi-cluster store, in the place of --cluster. Repeatable.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for results and weekly reports. Default: STORE.trials."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Receive events as the audit webhook backend of API servers.")
    ] = "",
    follow: Annotated[list[str] | None, typer.Option(metavar="LOG", help="Follow these log files. Repeatable.")] = None,
    pull: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOG",
            help="Read this log again and again: files or a bucket URL. %Y, %m, %d and %H stand for the hour. Repeatable.",
        ),
    ] = None,
    pull_every: Annotated[
        str, typer.Option(metavar="DURATION", help="With --pull: the pause between two reads.")
    ] = "5m",
    cluster_name: Annotated[
        str | None,
        typer.Option(
            "--cluster-name",
            metavar="NAME",
            envvar="REPLAY_CLUSTER_NAME",
            help="Cluster of the events, for a multi-cluster store.",
        ),
    ] = None,
    listen_cert_file: Annotated[Path | None, typer.Option(help="With --listen: certificate (PEM).")] = None,
    listen_key_file: Annotated[Path | None, typer.Option(help="With --listen: private key (PEM).")] = None,
    listen_client_ca_file: Annotated[
        Path | None, typer.Option(help="With --listen: CA of the API servers' client certificates (PEM).")
    ] = None,
    keep: Annotated[str, typer.Option(metavar="DURATION", help="Remove requests older than this: 30d.")] = "",
    keep_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Remove the oldest requests above this size: 50GB.")
    ] = "",
    flush_age: Annotated[str, typer.Option(metavar="DURATION", help="Write to the store after this time.")] = "5m",
    every: Annotated[str, typer.Option(metavar="DURATION", help="Decide new requests at most this often.")] = "1m",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the page.")] = "127.0.0.1:8080",
    host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Further host name of the page.")] = None,
    tls_cert_file: Annotated[Path | None, typer.Option(help="Certificate of the page (PEM).")] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(help="Private key of the page (PEM).")] = None,
    client_ca_file: Annotated[Path | None, typer.Option(help="CA of the readers' client certificates (PEM).")] = None,
    reader_token_file: Annotated[Path | None, typer.Option(help="File with the token of readers.")] = None,
    trusted_proxy: Annotated[
        str, typer.Option(metavar="ADDRESS=HEADER", help="Proxy that names the reader in this header.")
    ] = "",
    notify: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Post a JSON notice about new findings here. Repeatable.")
    ] = None,
    notify_secret_file: Annotated[Path | None, typer.Option(help="File with the secret that signs notices.")] = None,
    notify_slack: Annotated[bool, typer.Option("--notify-slack", help="Post notices as Slack text.")] = False,
    accepted: AcceptanceFile = None,
    owner_label: OwnerLabel = "team",
    workers: Workers = 0,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Keep policies on trial beside a cluster, with a web page of what they would deny.

    Fills the store from the log. Decides new requests when they arrive, and the whole store again in the background. Serves a page for
    people, a JSON API, and metrics for Prometheus. In a store with several clusters, each trial is decided for each cluster.
    """
    from replay.audit.live.tls import ServerTls
    from replay.errors import ReplayError
    from replay.pipeline.live import ended_by_signals
    from replay.serve.server import serve as run_server
    from replay.serve.settings import (
        Readers,
        Receiving,
        ServeSettings,
        of_each_cluster,
        parse_proxy,
        parse_seconds,
        parse_snapshots,
        parse_trials,
        read_secret,
    )
    from replay.storage.location import is_bucket

    if is_bucket(store):
        raise ReplayError("the store of a service is a directory: events are kept on a disk first", path="--store")
    if sum(map(bool, (listen, follow, pull))) > 1:
        raise ReplayError("give one of --listen, --follow and --pull")

    for url in notify or ():
        if not url.startswith(("https://", "http://")):
            raise ReplayError("a notice is posted to an http or https URL", path="--notify")
    readers = Readers(
        address,
        ServerTls(tls_cert_file, tls_private_key_file, client_ca_file),
        read_secret(reader_token_file, "--reader-token-file"),
        parse_proxy(trusted_proxy) if trusted_proxy else None,
        tuple(name.lower() for name in host or ()),
    )
    receiving = Receiving(
        listen=listen,
        follow=tuple(follow or ()),
        pull=tuple(pull or ()),
        pull_seconds=parse_seconds(pull_every, "--pull-every"),
        cluster=cluster_name or "",
        tls=ServerTls(listen_cert_file, listen_key_file, listen_client_ca_file),
        keep=keep,
        keep_size=keep_size,
        flush_age=flush_age,
    )
    settings = ServeSettings(
        store=store,
        data=data or Path(f"{store.rstrip('/')}.trials"),
        trials=of_each_cluster(parse_trials(trial), store, cluster_name or ""),
        current=current,
        cluster=cluster,
        snapshots=parse_snapshots(snapshot or ()),
        accepted=accepted,
        kubernetes_version=kubernetes_version,
        owner_label=owner_label,
        receiving=receiving,
        readers=readers,
        notify=tuple(notify or ()),
        notify_secret=read_secret(notify_secret_file, "--notify-secret-file"),
        notify_form="slack" if notify_slack else "json",
        every_seconds=parse_seconds(every, "--every"),
        workers=workers,
    )

    def tell(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    with ended_by_signals() as is_ended:
        run_server(settings, tell, is_ended)
