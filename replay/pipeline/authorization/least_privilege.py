"""A Role for what a user did: the least that RBAC would have had to give for the requests of a log that were allowed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import yaml

from replay.audit.store import Store
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac.binding import SERVICE_ACCOUNT
from replay.kube.rbac.kind import RBAC_GROUP
from replay.kube.rbac.rule import Permission, compacted, permission_asked
from replay.pipeline.authorization.replay import Request, read_questions

_HEADER = (
    "# What `{user}` was allowed to do in the log, and no more. What it does less often than the log is long is not in it:\n"
    "# look at a period that covers upgrades, failures and the end of a month before anything is taken away.\n"
)


def least_privilege(store: Store, user: str) -> str:
    """Role, ClusterRole and bindings as YAML. Raises ReplayError if the log has no request of the user that was allowed."""
    questions = {number: each for number, each in read_questions(store).items() if each.user.username == user}
    requests = map(Request._make, store.query("authorization_requests", within=True).iter_rows())
    allowed = {each.question for each in requests if each.decision == "allow" and each.question in questions}
    if not allowed:
        raise ReplayError(f"the log has no request of `{user}` that was allowed", path="--user")
    objects = list(_objects(user, [questions[number] for number in allowed]))
    return _HEADER.format(user=user) + yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True)


def _objects(user: str, allowed: Iterable[AuthorizationAttributes]) -> Iterable[JSON]:
    """A ClusterRole for what lies in no namespace or in all, and a Role for each namespace, each with its binding."""
    places: dict[str, list[Permission]] = defaultdict(list)
    for each in allowed:
        places[each.namespace].append(permission_asked(each))
    for namespace in sorted(places):
        yield from _role_and_binding(user, namespace, compacted(places[namespace]))


def _role_and_binding(user: str, namespace: str, rules: list[JSON]) -> Iterable[JSON]:
    kind = "Role" if namespace else "ClusterRole"
    name = f"{user.rpartition(':')[2].rpartition('@')[0] or user.rpartition(':')[2]}-least".lower()
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    version = {"apiVersion": f"{RBAC_GROUP}/v1"}
    yield {**version, "kind": kind, "metadata": metadata, "rules": rules}
    ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
    yield {**version, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": ref, "subjects": [_subject(user)]}


def _subject(user: str) -> JSON:
    if not user.startswith(SERVICE_ACCOUNT):
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
