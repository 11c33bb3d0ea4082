"""Settings of `replay serve`, from its options."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import TIMEOUT_MAX

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.live.tls import ServerTls, is_loopback
from replay.audit.store import Store
from replay.errors import ReplayError, reason_of
from replay.pipeline.options import length
from replay.pipeline.store import Retention
from replay.storage.location import cluster_location, cluster_names

_TRIAL = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)=(.+)")
_PROXY = re.compile(r"([^=]+)=([A-Za-z0-9-]+)")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):(?P<port>\d{1,5})")
LEAST_TOKEN = 16
"""Minimum number of characters of a readers' token."""


class Trial(Struct, frozen=True):
    """Candidate on trial: its name, its manifests, and the store. With several clusters it is the store of one cluster."""

    name: str
    candidate: Path
    store: str = ""
    cluster: str = ""


class Receiving(Struct, frozen=True):
    """Ways in which events reach the store: an address for API servers, log files to follow, or places to read repeatedly.

    All are empty if another process fills the store. `pull` are URLs or files with a date in `strftime` format.
    """

    listen: str = ""
    follow: tuple[str, ...] = ()
    pull: tuple[str, ...] = ()
    pull_seconds: float = 300.0
    cluster: str = ""
    """Cluster that the events belong to, in a store with several clusters."""
    tls: ServerTls = ServerTls()
    keep: str = ""
    keep_size: str = ""
    flush_age: str = "5m"

    def require(self) -> None:
        """Raise ReplayError for settings that the ingest process would refuse at every start."""
        if self.listen:
            host, _ = parse_address(self.listen, "--listen")
            self.tls.require(host)
        if (self.keep or self.keep_size) and not (self.listen or self.follow):
            raise ReplayError(
                "--keep and --keep-size go with --follow and --listen: `replay store prune` forgets at once"
            )
        Retention(keep=self.keep, size=self.keep_size)
        parse_seconds(self.flush_age, "--flush-age")


class Readers(Struct, frozen=True):
    """Readers of the pages: anyone on this machine, holders of a token, or users that a proxy names in a header."""

    address: str = "127.0.0.1:8080"
    tls: ServerTls = ServerTls()
    token: str = ""
    proxy: tuple[str, str] | None = None
    hosts: tuple[str, ...] = ()

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Address to bind. Raises ReplayError for an invalid one."""
        return parse_address(self.address, "--address")

    def require(self) -> None:
        """Raise ReplayError for an address that other machines reach without TLS or without authentication."""
        host, _ = self.host_and_port
        self.tls.require(host)
        if not is_loopback(host) and not (self.token or self.tls.client_ca or self.proxy):
            raise ReplayError(
                f"{host} is reached from other machines: give --reader-token-file, --client-ca-file or --trusted-proxy",
                path="--address",
            )


class ServeSettings(Struct, frozen=True):
    """Settings of `replay serve`. `data` holds the results of trials and the weekly reports."""

    store: str
    data: Path
    trials: tuple[Trial, ...]
    current: Path | None = None
    cluster: Path | None = None
    snapshots: Mapping[str, Path] = {}
    """Snapshots of the clusters that have their own, by name."""
    accepted: Path | None = None
    kubernetes_version: str | None = None
    owner_label: str = "team"
    receiving: Receiving = Receiving()
    readers: Readers = Readers()
    notify: tuple[str, ...] = ()
    notify_secret: str = ""
    notify_form: str = "json"
    every_seconds: float = 60.0
    """Minimum seconds between two decisions of new requests."""
    workers: int = 0

    def require(self) -> None:
        """Raise ReplayError for unsafe or unusable settings.

        Readers must be authenticated and the ingest must be able to start. An authority that signs the API servers'
        certificates must not also sign readers' certificates.
        """
        self.readers.require()
        self.receiving.require()
        if unknown := sorted(self.snapshots.keys() - self.stores.keys()):
            there_are = ", ".join(f"`{name}`" for name in sorted(self.stores) if name) or "none with a name"
            raise ReplayError(f"the store has no cluster `{unknown[0]}`; there are: {there_are}", path="--snapshot")
        ours, theirs = self.readers.tls.client_ca, self.receiving.tls.client_ca
        if ours is not None and theirs is not None and ours.read_bytes() == theirs.read_bytes():
            raise ReplayError(
                "API servers have certificates of this authority: readers need another one", path=str(ours)
            )

    def snapshot(self, cluster: str) -> Path | None:
        """Return the snapshot of a cluster: its own, or else the one for all clusters."""
        return self.snapshots.get(cluster, self.cluster)

    @property
    def stores(self) -> dict[str, str]:
        """Locations of the stores by cluster. The name is empty for a store of one cluster."""
        return {trial.cluster: trial.store for trial in self.trials}


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of an address. Raises ReplayError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 0xFFFF:
        raise ReplayError(f"no address `{text}`: write HOST:PORT, such as 127.0.0.1:8080", path=option)
    return match["v6"] or match["host"], int(match["port"])


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of a duration such as `5m`. Raises ReplayError, also for one that no thread can wait for."""
    try:
        period = length(text)
    except (OverflowError, ValueError):
        period = None
    if period is None or period.total_seconds() > TIMEOUT_MAX:
        raise ReplayError(f"no length of time `{text}`: write 30s, 5m, 1h", path=option)
    return period.total_seconds()


def parse_trials(texts: Sequence[str]) -> tuple[Trial, ...]:
    """Return the trials of `--trial NAME=PATH`. Raises ReplayError."""
    trials = []
    for text in texts:
        match = _TRIAL.fullmatch(text)
        if match is None:
            raise ReplayError(
                f"no trial `{text}`: write NAME=PATH, with lower case letters, digits and dashes in the name",
                path="--trial",
            )
        trials.append(Trial(match[1], Path(match[2])))
    names = [trial.name for trial in trials]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ReplayError(f"two trials are called `{repeated[0]}`: give each its own name", path="--trial")
    for trial in trials:
        if not trial.candidate.exists():
            raise ReplayError("there is no such file or directory", path=str(trial.candidate))
    return tuple(trials)


def parse_snapshots(texts: Sequence[str]) -> dict[str, Path]:
    """Return the snapshots of `--snapshot CLUSTER=FILE`. Raises ReplayError."""
    snapshots: dict[str, Path] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file:
            raise ReplayError(f"no snapshot `{text}`: write CLUSTER=FILE", path="--snapshot")
        if name in snapshots:
            raise ReplayError(f"two snapshots are of `{name}`: give each cluster one", path="--snapshot")
        if not Path(file).exists():
            raise ReplayError("there is no such file or directory", path=file)
        snapshots[name] = Path(file)
    return snapshots


def of_each_cluster(trials: Sequence[Trial], store: str, filled: str = "") -> tuple[Trial, ...]:
    """Return the trials for a store. With clusters there is one for each, named CLUSTER.NAME. Raises StoreError.

    `filled` is a cluster whose store may not exist yet.
    """
    names = sorted({*cluster_names(store), *([filled] if filled else [])}) if Path(store).is_dir() or filled else []
    if not names or Store.is_at(store):
        return tuple(replace(trial, store=store) for trial in trials)
    return tuple(
        replace(trial, name=f"{name}.{trial.name}", store=cluster_location(store, name), cluster=name)
        for name in names
        for trial in trials
    )


def parse_proxy(text: str) -> tuple[str, str]:
    """Return the address and header of `--trusted-proxy ADDRESS=HEADER`. Raises ReplayError."""
    match = _PROXY.fullmatch(text)
    try:
        if match is not None:
            return str(ipaddress.ip_address(match[1])), match[2].lower()
    except ValueError:
        pass
    raise ReplayError(
        f"no proxy `{text}`: write ADDRESS=HEADER, such as 10.0.0.7=X-Remote-User", path="--trusted-proxy"
    )


def read_secret(path: Path | None, option: str) -> str:
    """Return the secret in a file, without line ends, or an empty text without a file. Raises ReplayError."""
    if path is None:
        return ""
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    if len(text) < LEAST_TOKEN:
        raise ReplayError(f"a secret needs {LEAST_TOKEN} characters or more", path=f"{option} {path}")
    return text
