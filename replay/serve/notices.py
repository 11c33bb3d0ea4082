"""Notices of new findings: one signed JSON document for each new result of a trial that has any, and nothing else."""

from __future__ import annotations

import hashlib
import hmac
import queue
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import orjson

from replay.serve.settings import ServeSettings
from replay.serve.trials import TrialState
from replay.serve.views import is_lockout, new_rows, trial_data

MOST_FINDINGS = 50
TRIES = 5
_SECONDS = 10.0
SIGNATURE = "X-Replay-Signature"
"""The header with the HMAC-SHA256 of the body under the shared secret, as `sha256=HEX`."""


class Notices(threading.Thread):
    """Posts notices in the background. A URL that does not answer is tried again with growing pauses, and then given up."""

    def __init__(self, settings: ServeSettings, tell: Callable[[str], None], first_pause: float = 1.0) -> None:
        """Run when `start` is called."""
        super().__init__(name="notices", daemon=True)
        self._settings = settings
        self._tell = tell
        self._first_pause = first_pause
        self._queue: queue.Queue[bytes | None] = queue.Queue(maxsize=1000)

    def add(self, state: TrialState) -> None:
        """Queue a notice if the last result of a trial has new findings."""
        document = notice(state)
        if document is None or not self._settings.notify:
            return
        body = slack_text(document) if self._settings.notify_form == "slack" else document
        try:
            self._queue.put_nowait(orjson.dumps(body))
        except queue.Full:
            self._tell("a notice is dropped: too many wait")

    def end(self) -> None:
        """Send what waits, and end."""
        self._queue.put(None)
        self.join(timeout=_SECONDS)

    def run(self) -> None:
        """Send until the end."""
        while (body := self._queue.get()) is not None:
            for url in self._settings.notify:
                self._send(url, body)

    def _send(self, url: str, body: bytes) -> None:
        pause = self._first_pause
        for attempt in range(TRIES):
            try:
                with _opener().open(request_of(url, body, self._settings.notify_secret), timeout=_SECONDS):
                    return
            except (OSError, ValueError) as error:
                if attempt == TRIES - 1:
                    self._tell(f"a notice is given up after {TRIES} tries: {type(error).__name__}")
                    return
                time.sleep(pause)
                pause *= 2


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection would send the notice where nobody named it."""

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


def notice(state: TrialState) -> dict[str, Any] | None:
    """Return the document about new findings of a trial; None without any, and for the first result."""
    rows = new_rows(state)
    if not rows:
        return None
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
    """Return a notice as text that Slack and its kin show. Marks of their markup are replaced."""
    lines = [f"Trial {document['trial']['name']}: {document['findings']} new findings. {document['trial']['verdict']}"]
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
