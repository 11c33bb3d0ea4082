"""Users and retries of controllers. Controllers react to objects, and send nothing without them."""

from __future__ import annotations

import math
from typing import NamedTuple

_ACCOUNTS = "system:serviceaccount:kube-system:"
_COMPONENTS = ("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver")
GARBAGE_COLLECTOR = f"{_ACCOUNTS}generic-garbage-collector"
REPLICASET_CONTROLLER = f"{_ACCOUNTS}replicaset-controller"
JOB_CONTROLLER = f"{_ACCOUNTS}job-controller"
STATEFULSET_CONTROLLER = f"{_ACCOUNTS}statefulset-controller"
NAMESPACE_CONTROLLER = f"{_ACCOUNTS}namespace-controller"


def is_controller(username: str) -> bool:
    """Return whether a user is a part of Kubernetes that reacts to what it watches."""
    return username.startswith((_ACCOUNTS, "system:node:")) or username in _COMPONENTS


class Retry(NamedTuple):
    """A creation that a controller repeats for an owner, with growing pauses. `pause` is the first pause in seconds."""

    owner: str
    pause: float


_FIRST_PAUSES = {JOB_CONTROLLER: 1.0}
"""`pkg/controller/job` (`DefaultJobApiBackOff`)."""
_FIRST_PAUSE = 0.005
"""First pause of other controllers (`workqueue.DefaultTypedControllerRateLimiter`). Their pauses double too."""


def retry_of(username: str, owner: str) -> Retry:
    """Return the retry of a controller's creation."""
    return Retry(owner, _FIRST_PAUSES.get(username, _FIRST_PAUSE))


def attempts(retry: Retry, seconds: float) -> int:
    """Return how many times a controller has tried after `seconds`: each pause is twice the one before."""
    # The first attempt has no pause before it. After `n` pauses, `pause * (2**n - 1)` seconds have passed.
    return 1 + int(math.log2(max(seconds, 0) / retry.pause + 1))
