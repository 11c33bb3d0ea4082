"""A listener that is killed in the middle of batches, and clients that send again what was not answered."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread

from tests.support.audit_webhook import event_list, post_until_accepted
from tests.support.live_command import LiveCommand, audit_ids

BATCH = 50
CLIENTS = 3
_LONGEST_LIFE_SECONDS = 1.5


@dataclass
class Clients:
    """API servers that send batches to whoever listens now, until they are ended: which were accepted."""

    url: str = ""
    accepted: list[int] = field(default_factory=list)
    sent: int = 0
    failures: list[BaseException] = field(default_factory=list)
    ended: Event = field(default_factory=Event)
    _numbers: count[int] = field(default_factory=count)
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> None:
        """Send batches one after the other."""
        try:
            while not self.ended.is_set():
                with self._lock:
                    number = next(self._numbers)
                sent = post_until_accepted(lambda: self.url, event_list(number * BATCH, BATCH))
                with self._lock:
                    self.accepted.append(number)
                    self.sent += sent
        except BaseException as error:  # noqa: BLE001 - told by who waits
            self.failures.append(error)


@dataclass(frozen=True)
class Outcome:
    """How many batches were accepted, how often batches were sent, and requests that the store has not, or not once."""

    accepted: int
    sent: int
    missing: list[str]
    repeated: list[str]


def killed(directory: Path, kills: int, seed: int = 0) -> Outcome:
    """Kill a listener so often while clients send to it, and end the last one in peace."""
    chance = random.Random(seed)
    store = directory / "store"
    options = ["--listen", "127.0.0.1:0", "--store", store, "--flush-size", "200kB", "--flush-age", "1s"]
    clients = Clients()
    threads = [Thread(target=clients.run) for _ in range(CLIENTS)]
    for life in range(kills + 1):
        with LiveCommand(options) as command:
            clients.url = command.url()
            if life == 0:
                for thread in threads:
                    thread.start()
            _live(command, clients, chance)
            if life < kills:
                command.kill()
                continue
            clients.ended.set()
            for thread in threads:
                thread.join()
            code, _ = command.end()
            assert (code, clients.failures) == (0, []), command.told
    found = audit_ids(store)
    wanted = {f"id-{n}" for batch in clients.accepted for n in range(batch * BATCH, (batch + 1) * BATCH)}
    repeated = sorted({name for name in found if found.count(name) > 1}) if len(set(found)) < len(found) else []
    return Outcome(len(clients.accepted), clients.sent, sorted(wanted - set(found)), repeated)


def _live(command: LiveCommand, clients: Clients, chance: random.Random) -> None:
    """Let a listener accept a few batches, and then go on for a while."""
    wanted = len(clients.accepted) + CLIENTS
    deadline = time.monotonic() + 60
    while len(clients.accepted) < wanted and time.monotonic() < deadline:
        assert command.process.poll() is None, command.told
        time.sleep(0.01)
    time.sleep(chance.uniform(0, _LONGEST_LIFE_SECONDS))
