"""What is lost of a log makes no decision wrong: it is that of the cluster as it was, or unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from replay.audit.store import Store
from replay.authorization.trace import AuthorizationVerdict
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.lister import ObjectLister
from replay.kube.rbac_authorizer import RoleResolver
from replay.pipeline.authorization.run import authorization_inputs, replay_authorization
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.preparation import job_of
from replay.pipeline.scenario import Scenario

Event = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
CHAIN = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers: [{type: RBAC, name: rbac}]
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
USERS = ("ann", "bob")
NAMESPACES = ("a", "b")
NAMES = ("x", "y")
MASTERS = {"username": "root", "groups": ["system:masters"]}


@dataclass
class Server:
    """A cluster in which RBAC changes at random while users ask; every event with the decision of that time."""

    random: Random
    objects: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    truth: dict[str, str] = field(default_factory=dict)
    revision: int = 100
    time: datetime = BEGIN - timedelta(hours=1)

    def stamp(self) -> int:
        self.revision += self.random.randint(1, 3)
        return self.revision

    def content(self, kind: str) -> dict[str, Any]:
        if kind.endswith("Binding"):
            role = self.random.choice(["ClusterRole", *(["Role"] if kind == "RoleBinding" else [])])
            users = self.random.sample(USERS, self.random.randint(0, 2))
            return {
                "roleRef": {"apiGroup": RBAC, "kind": role, "name": self.random.choice(NAMES)},
                "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user} for user in users],
            }
        verbs = self.random.sample(["get", "list", "create"], self.random.randint(1, 3))
        return {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]}

    def put(self, kind: str, namespace: str, name: str) -> Any:
        """Create or replace an object; both answer with it."""
        known = self.objects.get((kind, namespace, name))
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        metadata |= {"uid": f"uid-{self.stamp()}", "creationTimestamp": stamp(self.time)[:19] + "Z"}
        if known is not None:
            metadata |= {key: known["metadata"][key] for key in ("uid", "creationTimestamp")}
        header = {"apiVersion": f"{RBAC}/v1", "kind": kind}
        made = {**header, "metadata": {**metadata, "resourceVersion": str(self.stamp())}, **self.content(kind)}
        if known is not None and "roleRef" in known:
            made["roleRef"] = known["roleRef"]
        self.objects[kind, namespace, name] = made
        return made

    def step(self) -> None:
        self.time += timedelta(seconds=3)
        if self.random.random() < 0.5:
            self.ask()
        else:
            self.write()

    def write(self) -> None:
        kind = self.random.choice(KINDS)
        namespace = "" if kind.startswith("Cluster") else self.random.choice(NAMESPACES)
        name = self.random.choice(NAMES)
        known = self.objects.get((kind, namespace, name))
        choice = self.random.random()
        ref = {"apiGroup": RBAC, "apiVersion": "v1", "resource": f"{kind.lower()}s", "namespace": namespace}
        path = f"/apis/{RBAC}/v1/" + (f"namespaces/{namespace}/" if namespace else "") + ref["resource"]
        if choice < 0.1 and namespace:
            items = [obj for key, obj in sorted(self.objects.items()) if key[:2] == (kind, namespace)]
            self.objects = {key: obj for key, obj in self.objects.items() if key[:2] != (kind, namespace)}
            listed = {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}List", "metadata": {}, "items": items}
            self.event("deletecollection", path, ref, 200, None, listed)
        elif choice < 0.35 and known is not None:
            del self.objects[kind, namespace, name]
            gone = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Success",
                "details": {"uid": known["metadata"]["uid"]},
            }
            self.stamp()
            self.event("delete", f"{path}/{name}", {**ref, "name": name}, 200, None, gone)
        elif known is not None:
            made = self.put(kind, namespace, name)
            self.event(
                "update", f"{path}/{name}", {**ref, "name": name}, 200, {**made, "metadata": known["metadata"]}, made
            )
        else:
            made = self.put(kind, namespace, name)
            self.event("create", path, {**ref, "name": name}, 201, made, made)

    def ask(self) -> None:
        user, namespace = self.random.choice(USERS), self.random.choice(NAMESPACES)
        verb = self.random.choice(["get", "list"])
        info = UserInfo(user, "", ("system:authenticated",))
        asked = AuthorizationAttributes(info, verb, resource="pods", namespace=namespace, resource_request=True)
        verdict = RoleResolver(ObjectLister(self.objects.values())).decide(asked)
        path = f"/api/v1/namespaces/{namespace}/pods" + ("/p" if verb == "get" else "")
        decision = "allow" if verdict.allowing else "forbid"
        ref = {"apiVersion": "v1", "resource": "pods", "namespace": namespace}
        event = self.event(verb, path, ref, 200 if verdict.allowing else 403, None, None)
        event["user"] = {"username": user, "groups": ["system:authenticated"]}
        event["annotations"] = {
            "authorization.k8s.io/decision": decision,
            "authorization.k8s.io/reason": (verdict.reasons or (verdict.refusal,))[0],
        }
        self.truth[event["auditID"]] = decision

    def event(self, verb: str, uri: str, ref: dict[str, str], code: int, request: Any, response: Any) -> Event:
        made = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"id-{len(self.events):04}",
            "stage": "ResponseComplete",
            "requestURI": uri,
            "verb": verb,
            "user": MASTERS,
            "objectRef": {key: value for key, value in ref.items() if value},
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": stamp(self.time),
            "stageTimestamp": stamp(self.time + timedelta(milliseconds=10)),
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
            **({"requestObject": request} if request is not None else {}),
            **({"responseObject": response} if response is not None else {}),
        }
        self.events.append(made)
        return made


def stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def served(seed: int, steps: int = 60) -> Server:
    """A server that had RBAC when its log began."""
    server = Server(Random(seed))
    for kind in KINDS:
        for namespace in [""] if kind.startswith("Cluster") else NAMESPACES:
            for name in NAMES:
                if server.random.random() < 0.5:
                    server.put(kind, namespace, name)
    # Something that nobody ever changes: a snapshot holds objects of every kind.
    for kind in KINDS:
        made = server.put(kind, "" if kind.startswith("Cluster") else "z", "constant")
        if "subjects" in made:
            made["subjects"] = []
    server.time = BEGIN
    for _ in range(steps):
        server.step()
    server.put("ClusterRole", "", "newest")
    return server


def decisions(tmp_path: Path, server: Server, files: Sequence[Sequence[Event]], chain: str = CHAIN) -> dict[str, str]:
    current = tmp_path / "current"
    current.mkdir()
    (current / "authorization.yaml").write_text(chain)
    cluster = tmp_path / "cluster.jsonl"
    cluster.write_bytes(b"\n".join(map(orjson.dumps, server.objects.values())))
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(files))]
    for path, events in zip(paths, files, strict=True):
        path.write_bytes(b"\n".join(map(orjson.dumps, events)))
    asked = Scenario(tuple(map(str, paths)), current=current, candidate=current, cluster=cluster)
    manifests = manifests_of(asked)
    options = Options(workers=1)
    with Store.open() as store:
        store.ingest(paths)
        inputs = authorization_inputs(manifests, options)
        assert inputs is not None
        replayed = replay_authorization(store, inputs, job_of(store, manifests, options, tmp_path)).replayed
        return {
            request.audit_id: replayed.decide(request).current.decision.value
            for request in replayed.requests()
            if request.audit_id in server.truth
        }


def all_there(server: Server) -> list[list[Event]]:
    return [server.events]


def shuffled(server: Server) -> list[list[Event]]:
    events = server.random.sample(server.events, len(server.events))
    return [events[::2], events[1::2]]


def without_bodies(server: Server) -> list[list[Event]]:
    return [[at_metadata(event) if server.random.random() < 0.4 else event for event in server.events]]


def without_any_body(server: Server) -> list[list[Event]]:
    return [list(map(at_metadata, server.events))]


def at_metadata(event: Event) -> Event:
    left = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
    return {**left, "level": "Metadata"}


def cut(server: Server) -> list[list[Event]]:
    """Without its begin and its end; what is deleted after the end leaves no trace."""
    deleted = [place for place, event in enumerate(server.events) if event["verb"].startswith("delete")]
    end = server.random.randrange(max(deleted, default=0), len(server.events)) + 1
    return [server.events[server.random.randrange(end) : end]]


def thinned(server: Server) -> list[list[Event]]:
    """Without any event but such as no trace of is left: an update between two others, a whole life."""
    lost = {event["auditID"] for event in server.events if server.random.random() < 0.4}
    created = {uid(event) for event in server.events if event["verb"] == "create" and event["auditID"] not in lost}
    return [
        [event for event in server.events if event["auditID"] not in lost or not leaves_a_trace(server, event, created)]
    ]


def leaves_a_trace(server: Server, event: Event, created: set[str]) -> bool:
    match event["verb"]:
        case "get" | "list":
            return True
        case "create":
            return uid(event) in {obj["metadata"]["uid"] for obj in server.objects.values()}
        case "delete":
            return uid(event) in created
    return False


def uid(event: Event) -> str:
    body = event["responseObject"] or {}
    return str((body.get("details") or body.get("metadata") or {}).get("uid"))


LOSSES: dict[str, Callable[[Server], list[list[Event]]]] = {
    each.__name__: each for each in (all_there, shuffled, without_bodies, without_any_body, cut, thinned)
}
EXACT = frozenset(["all_there", "shuffled"])


def wrong(found: dict[str, str], truth: dict[str, str]) -> Iterator[str]:
    for audit_id, decision in found.items():
        if decision not in (truth[audit_id], AuthorizationVerdict.UNKNOWN.value):
            yield f"{audit_id}: {decision} for {truth[audit_id]}"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_no_decision_is_wrong(tmp_path: Path, seed: int, loss: str) -> None:
    check(tmp_path, seed, loss)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "seed", [100, 101, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(102, 110))]
)
def test_no_decision_is_wrong_in_many_logs(tmp_path: Path, seed: int, loss: str) -> None:
    check(tmp_path, seed, loss)


def check(tmp_path: Path, seed: int, loss: str) -> None:
    server = served(seed)
    found = decisions(tmp_path, server, LOSSES[loss](server))
    assert list(wrong(found, server.truth)) == []
    if loss in EXACT:
        assert found.keys() == server.truth.keys()
        assert set(found.values()) != {AuthorizationVerdict.UNKNOWN.value}


@pytest.mark.parametrize("is_made_again", [False, True], ids=["a deletion", "a creation"])
def test_a_write_that_only_its_neighbours_tell_of(tmp_path: Path, *, is_made_again: bool) -> None:
    """The log lacks a deletion that only the snapshot tells of, or a creation that only an update tells of."""
    server = Server(Random(0))
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": user} for user in USERS]
    server.put("ClusterRole", "", "x")["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    server.put("ClusterRoleBinding", "", "constant")["subjects"] = []  # the snapshot holds objects of the kind
    binding = server.put("ClusterRoleBinding", "", "x")
    binding.update(subjects=subjects, roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "x"})
    path, key = f"/apis/{RBAC}/v1/clusterrolebindings/x", ("ClusterRoleBinding", "", "x")
    ref = {"apiGroup": RBAC, "apiVersion": "v1", "resource": "clusterrolebindings", "name": "x"}

    def write(verb: str, obj: Any) -> None:
        server.time += timedelta(seconds=60)
        server.event(verb, path, ref, 200, None if verb == "delete" else obj, obj)

    server.time = BEGIN
    binding = server.objects[key] = {
        **binding,
        "metadata": {**binding["metadata"], "resourceVersion": str(server.stamp())},
    }
    write("update", binding)
    if is_made_again:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Success",
            "details": {"uid": binding["metadata"]["uid"]},
        }
        write("delete", status)
    else:
        del server.objects[key]
    server.time += timedelta(seconds=60)
    if is_made_again:  # the creation is lost
        server.objects[key] = binding = {
            **binding,
            "metadata": {**binding["metadata"], "uid": "uid-new", "resourceVersion": str(server.stamp())},
        }
    server.ask()
    if is_made_again:
        write("update", {**binding, "metadata": {**binding["metadata"], "resourceVersion": str(server.stamp())}})
        server.objects[key] = server.events[-1]["responseObject"]
    server.put("ClusterRole", "", "newest")
    (asked,) = server.truth
    found = decisions(tmp_path, server, [server.events])
    assert (found, server.truth[asked]) == (
        {asked: AuthorizationVerdict.UNKNOWN.value},
        "allow" if is_made_again else "forbid",
    )
