"""Settings of `replay serve`, from its options."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from threading import TIMEOUT_MAX

from msgspec import Struct
from msgspec.structs import replace

from replay.audit.live.tls import ServerTls
from replay.audit.store import Store
from replay.errors import ReplayError, reason_of
from replay.pipeline.period import length
from replay.pipeline.store import Retention
from replay.storage.cluster import cluster_location, cluster_names

_TRIAL = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)=(.+)")
_PROXY = re.compile(r"([^=]+)=([A-Za-z0-9-]+)")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):(?P<port>\d{1,5})")
LEAST_TOKEN = 16
"""Characters of a token for readers, at least."""


class Trial(Struct, frozen=True):
    """A candidate under observation: its name, its manifests, and the store, which in a fleet is that of one cluster."""

    name: str
    candidate: Path
    store: str = ""
    cluster: str = ""


class Receiving(Struct, frozen=True):
    """How events reach the store: an address for API servers, log files to follow, or places to read again and again.

    Nothing if another process fills the store. `pull` are URLs or files, with the date as `strftime` writes it.
    """

    listen: str = ""
    follow: tuple[str, ...] = ()
    pull: tuple[str, ...] = ()
    pull_seconds: float = 300.0
    cluster: str = ""
    """Name of the cluster that the events are of, in a store with several."""
    tls: ServerTls = ServerTls()
    keep: str = ""
    keep_size: str = ""
    flush_age: str = "5m"

    def require(self) -> None:
        """Raise ReplayError for what the process that receives would refuse each time that it is started."""
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
    """Who may read the pages: anyone on this machine, or holders of a token, or users of a proxy that names them in a header."""

    address: str = "127.0.0.1:8080"
    tls: ServerTls = ServerTls()
    token: str = ""
    proxy: tuple[str, str] | None = None
    hosts: tuple[str, ...] = ()

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The address to bind. Raises ReplayError for another text."""
        return parse_address(self.address, "--address")

    def require(self) -> None:
        """Raise ReplayError for an address of other machines without TLS, or without a check of the reader."""
        host, _ = self.host_and_port
        self.tls.require(host)
        if not is_loopback(host) and not (self.token or self.tls.client_ca or self.proxy):
            raise ReplayError(
                f"{host} is reached from other machines: give --reader-token-file, --client-ca-file or --trusted-proxy",
                path="--address",
            )


class ServeSettings(Struct, frozen=True):
    """Everything that `replay serve` is told; `data` holds the results of trials and the weekly reports."""

    store: str
    data: Path
    trials: tuple[Trial, ...]
    current: Path | None = None
    cluster: Path | None = None
    accepted: Path | None = None
    kubernetes_version: str | None = None
    owner_label: str = "team"
    receiving: Receiving = Receiving()
    readers: Readers = Readers()
    notify: tuple[str, ...] = ()
    notify_secret: str = ""
    notify_form: str = "json"
    every_seconds: float = 60.0
    """New requests are decided at most this often."""
    workers: int = 0

    def require(self) -> None:
        """Raise ReplayError where readers are not checked, where events cannot be received, or where those who send them would be readers, too."""
        self.readers.require()
        self.receiving.require()
        ours, theirs = self.readers.tls.client_ca, self.receiving.tls.client_ca
        if ours is not None and theirs is not None and ours.read_bytes() == theirs.read_bytes():
            raise ReplayError(
                "API servers have certificates of this authority: readers need another one", path=str(ours)
            )

    @property
    def stores(self) -> dict[str, str]:
        """Where the store of each cluster is, by its name, which is empty for a store of one cluster."""
        return {trial.cluster: trial.store for trial in self.trials}


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of an address. Raises ReplayError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 0xFFFF:
        raise ReplayError(f"no address `{text}`: write HOST:PORT, such as 127.0.0.1:8080", path=option)
    return match["v6"] or match["host"], int(match["port"])


def parse_seconds(text: str, option: str) -> float:
    """Return the seconds of a length of time such as `5m`. Raises ReplayError, also for one that no thread can wait for."""
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


def of_each_cluster(trials: Sequence[Trial], store: str, filled: str = "") -> tuple[Trial, ...]:
    """Return the trials for a store: one for each of its clusters, called CLUSTER.NAME, if it has any.

    `filled` is the cluster whose store may not be there yet. Raises StoreError.
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
    """Return address and header of `--trusted-proxy ADDRESS=HEADER`. Raises ReplayError."""
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
    """Return the text of a secret file without line ends, empty without a file. Raises ReplayError."""
    if path is None:
        return ""
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    if len(text) < LEAST_TOKEN:
        raise ReplayError(f"a secret needs {LEAST_TOKEN} characters or more", path=f"{option} {path}")
    return text


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
