"""Notices of new findings: one signed JSON document for each new result of a trial with new findings.

A notice is kept in a file for each URL until it is sent, so a restart or a long outage does not lose it.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from replay.serve.settings import ServeSettings
from replay.serve.trials import TrialState
from replay.serve.views import is_lockout, trial_data

MOST_FINDINGS = 50
MOST_WAITING = 1000
"""Maximum number of notices that wait for one URL. A further one is dropped."""
TRIES = 5
"""Number of tries before the notices of a URL wait for a longer time."""
_REST_SECONDS = 300.0
_SECONDS = 10.0
SIGNATURE = "X-Replay-Signature"
"""Header with the HMAC-SHA256 of the body under the shared secret, as `sha256=HEX`."""


class Notices(threading.Thread):
    """Thread that posts notices. A URL that does not answer is tried again with growing pauses, then every five minutes."""

    def __init__(
        self,
        settings: ServeSettings,
        tell: Callable[[str], None],
        first_pause: float = 1.0,
        rest: float = _REST_SECONDS,
    ) -> None:
        """Run when `start` is called. `first_pause` and `rest` are seconds between tries."""
        super().__init__(name="notices", daemon=True)
        self._settings = settings
        self._tell = tell
        self._first_pause, self._rest = first_pause, rest
        self._ended = threading.Event()
        self._added = threading.Event()
        self._numbers = itertools.count()
        self._directory = settings.data / "notices"

    def add(self, state: TrialState, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep a notice about the new findings of a trial. Raises OSError."""
        if not self._settings.notify:
            return
        document = notice(state, rows)
        body = orjson.dumps(slack_text(document) if self._settings.notify_form == "slack" else document)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        for url in self._settings.notify:
            if len(self._waiting(url)) >= MOST_WAITING:
                self._tell("a notice is dropped: too many wait")
                continue
            path = self._directory / f"{time.time_ns():020}-{next(self._numbers):04}.{_mark(url)}"
            # The sending thread looks only for names that begin with a digit, so it never sends a part.
            new = path.with_name(f".{path.name}")
            new.write_bytes(body)
            new.replace(path)
        self._added.set()

    def end(self) -> None:
        """End after the current notice. Waiting notices are sent after the next start."""
        self._ended.set()
        self._added.set()
        self.join(timeout=_SECONDS)

    def run(self) -> None:
        """Send until the end."""
        while not self._ended.is_set():
            # Cleared before the look, so that a notice added during it wakes the next wait.
            self._added.clear()
            for url in self._settings.notify:
                for path in self._waiting(url):
                    if self._ended.is_set() or not self._is_sent(url, path.read_bytes()):
                        break
                    path.unlink()
            if not self._ended.is_set():
                self._added.wait(self._rest)

    def _waiting(self, url: str) -> list[Path]:
        """Return the waiting notices of a URL, oldest first."""
        return sorted(self._directory.glob(f"[0-9]*.{_mark(url)}"))

    def _is_sent(self, url: str, body: bytes) -> bool:
        """Send a notice, and return whether the server accepted it."""
        pause = self._first_pause
        for attempt in range(TRIES):
            try:
                with _opener().open(request_of(url, body, self._settings.notify_secret), timeout=_SECONDS):
                    return True
            except (OSError, ValueError) as error:
                if attempt == TRIES - 1:
                    self._tell(f"a notice waits after {TRIES} tries: {type(error).__name__}")
                elif self._ended.wait(pause):
                    break
                pause *= 2
        return False


def _mark(url: str) -> str:
    """Return the mark of a URL in file names. The URL itself may be a secret."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler without redirects, because a redirect would send the notice to a server that was not named."""

    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect())


def request_of(url: str, body: bytes, secret: str) -> urllib.request.Request:
    """Return the POST of a notice, signed if there is a secret."""
    headers = {"Content-Type": "application/json"}
    if secret:
        headers[SIGNATURE] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - named by the operator


def notice(state: TrialState, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document about new findings of a trial, lockouts first."""
    shown = sorted(rows, key=lambda row: (not is_lockout(row), -row["requests"]))[:MOST_FINDINGS]
    names = ("policy", "namespace", "workload", "owner", "requests", "message", "auditID")
    return {
        "kind": "replay.newFindings",
        "trial": trial_data(state),
        "isLockout": any(map(is_lockout, rows)),
        "findings": len(rows),
        "first": [{name: row[name] for name in names} for row in shown],
    }


def slack_text(document: dict[str, Any]) -> dict[str, str]:
    """Return a notice as text for Slack and similar services. Their markup characters are replaced."""
    lines = [
        f"Trial {document['trial']['name']}: {document['findings']} new {'finding' if document['findings'] == 1 else 'findings'}. {document['trial']['verdict']}"
    ]
    if document["isLockout"]:
        lines.append("A system component would be locked out.")
    lines += [
        f"{row['policy']} denies {row['workload']} in {row['namespace'] or '(cluster)'}"
        for row in document["first"][:10]
    ]
    text = "\n".join(lines)
    return {
        "text": text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("`", "'")
        .replace("@", "(at)")
    }
