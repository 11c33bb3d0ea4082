"""Requests with equal decisions of the authorizers."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field


class AlikeRequests(NamedTuple):
    """Key of requests that are alike. `authorizer` is empty without a replay."""

    decision: str
    reason: str
    authorizer: str
    user: str
    verb: str
    resource: str
    namespace: str


class AuthorizationLookup(Struct):
    """Number of requests by key, with the auditID of the first of each."""

    log: str
    requests: Counter[AlikeRequests] = field(default_factory=Counter)
    first: dict[AlikeRequests, str] = field(default_factory=dict)
