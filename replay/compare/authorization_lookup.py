"""Requests that the authorizers decided alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class AlikeRequests(NamedTuple):
    """Requests that are alike; `authorizer` is empty where nobody replayed them."""

    decision: str
    reason: str
    authorizer: str
    user: str
    verb: str
    resource: str
    namespace: str


@dataclass(slots=True)
class AuthorizationLookup:
    """How many requests there are of each sort, with the auditID of the first."""

    log: str
    requests: Counter[AlikeRequests] = field(default_factory=Counter)
    first: dict[AlikeRequests, str] = field(default_factory=dict)
