"""What follows a difference, from a log and two sets to the lines of `--outcomes`: one small log for each rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult, WorldFacts
from replay.pipeline.options import Options
from replay.pipeline.replay.replayer import Replayer
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.reconstruct.request import ReplayRequest
from replay.world.result import IsolatedEnd

API = "admissionregistration.k8s.io/v1"
POLICY = "rules.static.k8s.io"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
DENIED = f"x is forbidden: ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: no"
KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "namespaces": ("v1", "Namespace"),
    "pods": ("v1", "Pod"),
    "deployments": ("apps/v1", "Deployment"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "jobs": ("batch/v1", "Job"),
    "secrets": ("v1", "Secret"),
    "services": ("v1", "Service"),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    "dolls": ("example.com/v1", "Doll"),
    "rolebindings": ("rbac.authorization.k8s.io/v1", "RoleBinding"),
}
SECRET_DATA = {"p": "c2VjcmV0LXZhbHVl"}
BAD = {"bad": "1"}
KEEP = {"keep": "1"}
SUCCEEDS, DENIES, ABSENT, EXISTS = ("succeeds", None), ("denied", "root"), "absent", "exists"


@dataclass(frozen=True)
class Request:
    """A request with the log's answer; `labels` are those of the object that a success answers with.

    `generated` is the name that the server generated for an object which it then refused.
    """

    verb: str
    name: str = "a"
    labels: dict[str, str] = field(default_factory=dict)
    code: int = 200
    message: str = ""
    resource: str = "configmaps"
    subresource: str = ""
    namespace: str = "default"
    user: str = "jane"
    query: str = ""
    body: Any = None
    owner: str = ""
    items: tuple[str, ...] = ()
    generated: str = ""
    reason: str = ""
    """Why the authorizers let it in."""
    managers: Any = None
    """The `managedFields` that the answer has."""
    held: tuple[str, ...] = ()
    """The names of what a finalizer holds: the object itself, or of those of a collection."""
    ends: bool = False
    """Whether the object of the answer is being deleted."""
    causes: Any = None
    """The causes that the answer to a request that is invalid names."""
    level: str = "RequestResponse"
    """What the log's policy records: no object is in the line of a `Metadata` request."""

    def event(self, number: int) -> bytes:
        version, kind = KINDS[self.resource]
        group, _, only = version.rpartition("/")
        namespaced = self.resource != "namespaces"
        reference: dict[str, Any] = {"resource": self.resource, "apiVersion": only, "apiGroup": group}
        reference["subresource"] = self.subresource
        if self.verb != "deletecollection":
            reference["name"] = self.name
        if namespaced or self.verb != "create":
            reference["namespace"] = self.namespace if namespaced else self.name
        succeeded = 200 <= self.code < 300
        status: dict[str, Any] = {"metadata": {}, "code": self.code}
        if not succeeded:
            reason = ("AlreadyExists" if "already exists" in self.message else "Conflict") if self.code == 409 else ""
            status.update(status="Failure", message=self.message, reason=reason)
            if self.generated:
                status["details"] = {"name": self.generated}
            if self.causes:
                status["details"] = {"causes": self.causes}
        answer = {**self._object(version, kind, number), "metadata": self._metadata(number)}
        if self.verb == "delete" and not self.held:
            answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        if self.verb == "deletecollection":
            labels = dict.fromkeys(self.items[:1], self.labels)
            common = {"namespace": self.namespace}
            listed = [
                {"metadata": {"name": n, "uid": f"u-{n}", "labels": labels.get(n, {}), **common, **self._held(n)}}
                for n in self.items
            ]
            answer = {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": listed}
        sent = self.body if self.body is not None else self._sent(version, kind)
        if self.verb == "update" and isinstance(sent, dict):
            reference["resourceVersion"] = sent["metadata"].get("resourceVersion")
        bodies = {
            "requestObject": sent,
            "responseObject": answer if succeeded else {"kind": "Status", "apiVersion": "v1", **status},
        }
        return orjson.dumps(
            {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": self.level,
                "auditID": f"id-{number}",
                "stage": "ResponseComplete",
                "requestURI": f"/{self.resource}{self.query}",
                "verb": self.verb,
                "user": {"username": self.user},
                "objectRef": {key: value for key, value in reference.items() if value},
                "responseStatus": status,
                **(bodies if self.level == "RequestResponse" else {}),
                "requestReceivedTimestamp": f"2026-11-21T03:00:{number:02}.000000Z",
                "stageTimestamp": f"2026-11-21T03:00:{number:02}.100000Z",
                "annotations": {
                    "authorization.k8s.io/decision": "forbid" if "User " in self.message else "allow",
                    "authorization.k8s.io/reason": self.reason,
                },
            }
        )

    def _metadata(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "uid": f"u-{self.name}", "resourceVersion": str(100 + number)}
        if self.resource != "namespaces":
            found["namespace"] = self.namespace
        if self.labels:
            found["labels"] = self.labels
        if self.managers:
            found["managedFields"] = self.managers
        found |= self._held(self.name)
        if self.ends:
            found |= {"deletionTimestamp": "2026-11-21T03:00:00Z", "deletionGracePeriodSeconds": 0}
        if self.owner:
            found["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": self.owner, "controller": True}
            ]
        return found

    def _held(self, name: str) -> dict[str, Any]:
        return {"finalizers": ["example.com/hold"]} if name in self.held else {}

    def _object(self, version: str, kind: str, number: int) -> dict[str, Any]:
        spec = self.body.get("spec") if isinstance(self.body, dict) else None
        metadata = {"metadata": self._metadata(number)}
        data = {"data": SECRET_DATA} if kind == "Secret" else {}
        return {"kind": kind, "apiVersion": version, **metadata, **data, **({"spec": spec} if spec else {})}

    def _sent(self, version: str, kind: str) -> Any:
        if self.verb not in ("create", "update"):
            return None
        metadata = {k: v for k, v in self._metadata(0).items() if k not in ("uid", "resourceVersion")}
        data = {"data": SECRET_DATA} if kind == "Secret" else {}
        return {"kind": kind, "apiVersion": version, "metadata": metadata, **data}


class Row(NamedTuple):
    """A log, and for each request its cause and `root`, or the number of the request that it follows."""

    name: str
    requests: list[Request]
    expected: list[tuple[str, Any]]
    mutation: str = ""
    reverse: bool = False
    message: str = "'no'"
    """The expression of the message with which the policy refuses."""
    both: bool = False
    """Whether the log's set has the policy that denies too, without the mutation."""


CREATE, UPDATE, DELETE = Request("create", code=201), Request("update"), Request("delete")
PATCH = Request("patch", body={"data": {"k": "v"}})
CREATE_BAD = Request("create", labels=BAD, code=201)
UPDATE_BAD = Request("update", labels=BAD)
CREATE_KEPT = Request("create", labels=KEEP, code=201)
AGAIN = Request("create", code=409, message='configmaps "a" already exists')
GONE = Request("update", code=404, message='configmaps "a" not found')
REFUSED = Request("create", labels=BAD, code=422, message=DENIED)
IN_NAMESPACE = Request("create", code=201, namespace="n")
OF_CONTROLLER = Request("create", "c", code=201, namespace="n", user=CONTROLLER)
BAD_NAMESPACE = Request("create", "n", BAD, 201, resource="namespaces")
BAD_DEPLOYMENT = Request("create", "d", BAD, 201, resource="deployments")
OWNED_SET = Request("create", "r", code=201, resource="replicasets", user=CONTROLLER, owner="u-d")
OWNED_POD = Request("create", "p", code=201, resource="pods", user=CONTROLLER, owner="u-r")
BAD_POD = Request("create", "p", BAD, 201, resource="pods", user=CONTROLLER, owner="u-r")
NEXT_POD = Request("create", "q", BAD, 201, resource="pods", user=CONTROLLER, owner="u-r")
REFUSED_POD = Request(
    "create", "", BAD, 422, f'pods "p-1" {DENIED[1:]}', resource="pods", user=CONTROLLER, owner="u-r", generated="p-1"
)
REFUSED_JOB = Request("create", "j", BAD, 422, DENIED, resource="jobs")
CREATE_JOB = Request("create", "j", code=201, resource="jobs")
POD_OF_JOB = Request("create", "p", code=201, resource="pods", user=CONTROLLER, owner="u-j")
INVALID_POD = Request(
    "create",
    "",
    code=422,
    message='Pod "p-1" is invalid: metadata.labels: Invalid value: "a~b": name part must consist of alphanumeric characters',
    resource="pods",
    user=CONTROLLER,
    owner="u-r",
    generated="p-1",
)
TEMPLATE = {"metadata": {"labels": BAD}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
KEPT_JOB = Request(
    "create",
    "j",
    KEEP,
    201,
    resource="jobs",
    body={
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "labels": KEEP},
        "spec": {"template": TEMPLATE},
    },
)


def deployment(verb: str, labels: dict[str, str], template: Any, code: int = 200) -> Request:
    """A write of the Deployment `d` with a pod template."""
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "labels": labels},
        "spec": {"template": template},
    }
    return Request(verb, "d", labels, code, resource="deployments", body=body)


def managed(manager: str, operation: str, *labels: str) -> dict[str, Any]:
    """An entry of `managedFields`."""
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{name}": {} for name in labels}}}
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def apply(manager: str, sent: dict[str, str], stored: dict[str, str], *managers: Any, code: int = 200) -> Request:
    """A server-side apply of labels, and what it stored."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default", "labels": sent}}
    return Request("patch", labels=stored, code=code, query=f"?fieldManager={manager}", body=body, managers=managers)


UPDATE_OF_APPLIED = Request(
    "update", labels=BAD | KEEP, managers=[managed("me", "Apply", "keep"), managed("ui", "Update", "bad")]
)
COLLECTION = Request("deletecollection", labels=KEEP, items=("a", "b"))
CREATE_B = Request("create", "b", code=201)
EVICTED_POD = Request("create", "p", code=201, resource="pods", body={"spec": {"containers": []}})
EVICTION = Request(
    "create",
    "p",
    code=201,
    resource="pods",
    subresource="eviction",
    body={"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
)
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"}


def of_version(version: int, code: int = 200) -> Request:
    """An update that names the version that the request of a number stored."""
    metadata = {"name": "a", "namespace": "default", "resourceVersion": str(100 + version)}
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    return Request("update", code=code, message="the object has been modified" if code == 409 else "", body=body)


BINDING = Request(
    "create",
    "b",
    BAD,
    201,
    resource="rolebindings",
    body={
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "default", "labels": BAD},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "jane"}],
    },
)
BY_BINDING = Request(
    "create", code=201, query="?x", reason='RBAC: allowed by RoleBinding "b/default" of Role "r" to User "jane"'
)

MODIFIED = 'Operation cannot be fulfilled on configmaps "a": the object has been modified'

ROWS = [
    Row(
        "an apply takes away what its manager had applied, in this world too",
        [
            apply("me", KEEP, KEEP, managed("me", "Apply", "keep"), code=201),
            UPDATE_OF_APPLIED,
            apply("me", {}, BAD, managed("ui", "Update", "bad")),
            DELETE,
        ],
        [SUCCEEDS, DENIES, ("succeeds", "root"), SUCCEEDS],
    ),
    Row(
        "an apply conflicts with a manager from whom nothing was taken in this world",
        [
            apply("me", {"x": "1"}, {"x": "1"}, managed("me", "Apply", "x"), code=201),
            apply("you&force=true", {"x": "2"} | BAD, {"x": "2"} | BAD, managed("you", "Apply", "x", "bad")),
            apply("you", {"x": "3"}, {"x": "3"}, managed("you", "Apply", "x")),
            DELETE,
        ],
        [SUCCEEDS, DENIES, ("conflict", 1), SUCCEEDS],
    ),
    Row(
        "what a collection leaves that ends at an object before",
        [CREATE_KEPT, CREATE_B, COLLECTION, CREATE_B],
        [SUCCEEDS, SUCCEEDS, DENIES, DENIES, (EXISTS, 2)],
    ),
    Row(
        "a collection ends at the first of several objects that are there in this world alone",
        [
            *(Request("create", name, KEEP, 201) for name in "abcd"),
            *(Request("delete", name) for name in "abcd"),
            Request("create", "aa", code=201),
            Request("deletecollection", items=("aa",)),
            Request("create", "aa", code=201),
        ],
        [*[SUCCEEDS] * 4, *[DENIES] * 4, SUCCEEDS, ("denied", 4), (EXISTS, 9)],
    ),
    Row(
        "a collection that a policy of the current set refused",
        [CREATE_KEPT, Request("deletecollection", code=422, message=DENIED), PATCH],
        [SUCCEEDS, ("succeeds", "root"), (ABSENT, 1)],
        reverse=True,
    ),
    Row(
        "a collection of nothing, in the log",
        [CREATE_KEPT, DELETE, Request("deletecollection", labels=KEEP)],
        [SUCCEEDS, DENIES, ("denied", 1)],
    ),
    Row(
        "the options of a deletion with a body are in the body alone",
        [CREATE_KEPT, Request("delete", query="?dryRun=All", body=OPTIONS), CREATE],
        [SUCCEEDS, DENIES, (EXISTS, 1)],
    ),
    Row(
        "a pod that runs nowhere is gone when it is evicted",
        [EVICTED_POD, EVICTION, Request("create", "p", BAD, 422, DENIED, resource="pods")],
        [SUCCEEDS, SUCCEEDS, ("succeeds", "root")],
        reverse=True,
    ),
    Row(
        "a version that is the last one where the next write was refused",
        [CREATE, UPDATE_BAD, of_version(0, 409)],
        [SUCCEEDS, DENIES, ("succeeds", 1)],
    ),
    Row(
        "a version that is outdated there too",
        [CREATE, UPDATE, UPDATE_BAD, of_version(0, 409)],
        [SUCCEEDS, SUCCEEDS, DENIES, ("conflict", None)],
    ),
    Row("what a binding allows that is refused", [BINDING, BY_BINDING], [DENIES, ("forbidden", 0)]),
    Row("a refused binding is to blame for nothing else", [BINDING, CREATE_BAD, UPDATE], [DENIES, DENIES, (ABSENT, 1)]),
    Row("an update of what was never created", [CREATE_BAD, UPDATE], [DENIES, (ABSENT, 0)]),
    Row("a patch and a deletion of it", [CREATE_BAD, PATCH, DELETE], [DENIES, (ABSENT, 0), (ABSENT, 0)]),
    Row("a refused update leaves what was there", [CREATE, UPDATE_BAD, PATCH], [SUCCEEDS, DENIES, SUCCEEDS]),
    Row("a creation anew is followed no further", [CREATE_BAD, DELETE, CREATE], [DENIES, (ABSENT, 0), SUCCEEDS]),
    Row("a name that is free", [CREATE_BAD, AGAIN, UPDATE], [DENIES, ("succeeds", 0), SUCCEEDS]),
    Row("a refused deletion", [CREATE_KEPT, DELETE, CREATE], [SUCCEEDS, DENIES, (EXISTS, 1)]),
    Row(
        "policies refuse before the storage finds the object",
        [CREATE, Request("create", labels=BAD, code=409, message="already exists")],
        [SUCCEEDS, DENIES],
    ),
    Row("a conflict is no refused creation", [CREATE, AGAIN, UPDATE], [SUCCEEDS, (EXISTS, None), SUCCEEDS]),
    Row(
        "a dry run changes nothing",
        [Request("create", labels=BAD, code=201, query="?dryRun=All"), CREATE, UPDATE],
        [DENIES, SUCCEEDS, SUCCEEDS],
    ),
    Row(
        "a namespace takes what is in it along",
        [BAD_NAMESPACE, IN_NAMESPACE, Request("update", namespace="n"), OF_CONTROLLER],
        [DENIES, (ABSENT, 0), (ABSENT, 0), ("not_sent", 0)],
    ),
    Row("owners", [BAD_DEPLOYMENT, OWNED_SET, OWNED_POD], [DENIES, ("not_sent", 0), ("not_sent", 0)]),
    Row(
        "a refused pod of what is not there",
        [BAD_DEPLOYMENT, OWNED_SET, REFUSED_POD],
        [DENIES, ("not_sent", 0), ("not_sent", 0)],
    ),
    Row(
        "pods of a job that was there already",
        [REFUSED_JOB, CREATE_JOB, POD_OF_JOB],
        [("succeeds", "root"), (EXISTS, 0), ("not_sent", 0)],
        reverse=True,
    ),
    Row(
        "a generated name of what was never created",
        [INVALID_POD, INVALID_POD],
        [("succeeds", "root"), ("not_sent", 0)],
        mutation="[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a~b': 'c'}}]",
        reverse=True,
    ),
    Row("one finding of a batch", [BAD_POD, NEXT_POD], [DENIES, ("not_sent", 0)]),
    Row(
        "a collection that would be refused",
        [CREATE_KEPT, Request("deletecollection", labels=KEEP, items=("a",)), CREATE],
        [SUCCEEDS, DENIES, (EXISTS, 1)],
    ),
    Row(
        "a connection asks policies before it looks for the pod",
        [
            Request("create", "p", BAD, 201, resource="pods"),
            Request("create", "p", code=101, resource="pods", subresource="exec", query="?command=ls"),
        ],
        [DENIES, (ABSENT, 0)],
    ),
    Row(
        "a mutation that makes an invalid object",
        [CREATE, UPDATE],
        [("invalid", "root"), (ABSENT, 0)],
        mutation="[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a~b': 'c'}}]",
    ),
    Row(
        "a controller writes back what it saw, with a status",
        [
            Request("create", "r", {"a": "b"}, 201, resource="replicasets"),
            Request("update", "r", {"a": "b"}, resource="replicasets", subresource="status", user=CONTROLLER),
            Request("delete", "r", resource="replicasets"),
        ],
        [("succeeds", "root"), SUCCEEDS, ("denied", 0)],
        mutation="[JSONPatch{op: 'add', path: '/metadata/labels/keep', value: 'c'}]",
    ),
    Row("what begins to exist", [REFUSED, GONE], [("succeeds", "root"), ("succeeds", 0)], reverse=True),
    Row("a creation of what begins to exist", [REFUSED, CREATE], [("succeeds", "root"), (EXISTS, 0)], reverse=True),
]


RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"}
CLUSTER = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
    {
        **RBAC,
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
    },
    {**RBAC, "kind": "ClusterRole", "metadata": {"name": "none"}, "rules": []},
    {**RBAC, "kind": "RoleBinding", "metadata": {"name": "none", "namespace": "default"}, "roleRef": REF},
    {**RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "none"}, "roleRef": REF},
]


def manifests(directory: Path, mutation: str, message: str = "'no'") -> Path:
    rules = [
        {
            "apiGroups": ["", "apps", "batch", "rbac.authorization.k8s.io", "apiextensions.k8s.io"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["*", "pods/eviction"],
        }
    ]
    validation = (
        "request.operation == 'DELETE' ? !('keep' in oldObject.metadata.?labels.orValue({}))"
        " : !('bad' in object.metadata.?labels.orValue({}))"
    )
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": validation, "messageExpression": message}],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    ]
    if mutation:
        created = [{**rules[0], "operations": ["CREATE"]}]
        mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": mutation}}]
        spec = {"matchConstraints": {"resourceRules": created}, "reinvocationPolicy": "Never", "mutations": mutations}
        metadata = {"name": "mutate.static.k8s.io"}
        objects += [
            {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec},
            {
                "apiVersion": API,
                "kind": "MutatingAdmissionPolicyBinding",
                "metadata": metadata,
                "spec": {"policyName": metadata["name"]},
            },
        ]
    for folder, prefix in (("vap", "Validating"), ("map", "Mutating")):
        (directory / folder).mkdir(parents=True)
        chosen = [each for each in objects if each["kind"].startswith(prefix)]
        (directory / folder / "all.json").write_bytes(
            orjson.dumps({"apiVersion": "v1", "kind": "List", "items": chosen})
        )
    return directory


def replayed(row: Row, directory: Path, *, alike: bool = False) -> tuple[RunResult, list[tuple[str, Any]]]:
    """What a run says of a row, with the policies in one set or, `alike`, in both."""
    directory.mkdir(exist_ok=True)
    log, outcomes, cluster = directory / "audit.jsonl", directory / "outcomes.jsonl", directory / "cluster.json"
    log.write_bytes(b"\n".join(request.event(number) for number, request in enumerate(row.requests)))
    cluster.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    rules, other = manifests(directory / "rules", row.mutation, row.message), directory / "other"
    if row.both:
        manifests(other, "", row.message)
    else:
        (other / "vap").mkdir(parents=True)
    sets = (rules, rules) if alike else (rules, other) if row.reverse else (other, rules)
    scenario = Scenario((str(log),), current=sets[0], candidate=sets[1], cluster=cluster)
    result = run(scenario, Options(outcomes=outcomes, workers=1), lambda _what, _done, _total: None)
    found = []
    for line in map(orjson.loads, outcomes.read_bytes().splitlines()):
        follows = line.get("follows")
        told = int(follows.removeprefix("id-")) if follows else ("root" if line.get("root") else None)
        found.append((line["candidate"]["result"]["cause"], told))
    return result, found


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_consequences(row: Row, tmp_path: Path) -> None:
    assert replayed(row, tmp_path)[1] == row.expected


def test_what_is_open_for_both_sets_alike_begins_no_other_world(tmp_path: Path) -> None:
    """Whether a patch that was overtaken came as far as the policies is not known."""
    overtaken = {"metadata": {"labels": BAD, "resourceVersion": "100"}}
    outdated = Request("patch", code=409, message=MODIFIED, body=overtaken)
    mutation = "[JSONPatch{op: 'add', path: '/metadata/labels/keep', value: 'c'}]"
    result, _ = replayed(Row("", [CREATE_KEPT, outdated], [], mutation), tmp_path, alike=True)
    assert result.summary.outcomes[OutcomeKind.UNDETERMINED] == 1
    assert result.world == WorldFacts()


BARE = Request("create", code=201, level="Metadata")
UNDETERMINED_ROWS = [
    Row(
        "a creation of an unknown object, and what comes after it",
        [BARE, UPDATE, DELETE],
        [("unknown", "root"), ("unknown", 0), ("unknown", 0)],
    ),
    Row(
        "an unknown object of a name that the candidate kept",
        [CREATE_KEPT, DELETE, BARE, UPDATE_BAD, DELETE],
        [SUCCEEDS, DENIES, ("unknown", 1), DENIES, ("denied", 1)],
    ),
    Row(
        "an unknown update of what was refused",
        [CREATE_BAD, replace(UPDATE, level="Metadata"), UPDATE, DELETE],
        [DENIES, (ABSENT, 0), (ABSENT, 0), (ABSENT, 0)],
    ),
    Row(
        "an unknown object in a refused namespace",
        [BAD_NAMESPACE, replace(BARE, namespace="n")],
        [DENIES, (ABSENT, 0)],
    ),
]


@pytest.mark.parametrize("row", UNDETERMINED_ROWS, ids=[row.name for row in UNDETERMINED_ROWS])
def test_what_is_undetermined_taken_alone_ends_as_if_decided_again(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second pass takes over that the first one could not tell, where it meets the request in the same state."""
    taken_over = replayed(row, tmp_path / "taken over")
    ends = Replayer.ends

    def without(replayer: Replayer, request: ReplayRequest, kind: OutcomeKind, decisions: Any) -> IsolatedEnd | None:
        return None if kind is OutcomeKind.UNDETERMINED else ends(replayer, request, kind, decisions)

    monkeypatch.setattr(Replayer, "ends", without)
    anew = replayed(row, tmp_path / "anew")
    assert taken_over[1] == anew[1] == row.expected
    assert taken_over[0].world == anew[0].world


def test_what_a_report_counts(tmp_path: Path) -> None:
    row = Row("", [BAD_NAMESPACE, IN_NAMESPACE, OF_CONTROLLER, BAD_POD, NEXT_POD], [])
    world = replayed(row, tmp_path)[0].world
    assert (world.roots, world.consequences, world.not_sent, world.retried) == (2, 1, 2, 1)
    assert dict(world.ends) == {"denied": 2, "absent": 1}


def test_pods_of_a_job_that_is_there_in_this_world_alone(tmp_path: Path) -> None:
    """The candidate keeps a job from being deleted, and refuses its pods: from then on the log says nothing of them."""
    row = Row("", [KEPT_JOB, Request("delete", "j", resource="jobs"), *[CREATE] * 8], [])
    world = replayed(row, tmp_path)[0].world
    assert (world.retried, world.refused, world.refused_in_log) == (1, 4, 0)


OTHER_TEMPLATE = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "j"}]}}
SET_OF_TEMPLATE = replace(OWNED_SET, body={"spec": {"template": TEMPLATE}})


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        pytest.param([], (1, 11), id="which the log's controller was too late for"),
        pytest.param([SET_OF_TEMPLATE], (0, 0), id="for which the log holds the ReplicaSet"),
        pytest.param(
            [replace(SET_OF_TEMPLATE, owner="u-e")], (1, 11), id="of which another Deployment has a ReplicaSet"
        ),
    ],
)
def test_pods_of_a_template_that_stays(tmp_path: Path, made: list[Request], refused: tuple[int, int]) -> None:
    """The candidate refuses an update, so that a Deployment keeps the template that it had, and the candidate refuses its pods."""
    written = [deployment("create", {}, TEMPLATE, 201), *made, deployment("update", BAD, OTHER_TEMPLATE)]
    world = replayed(Row("", [*written, *[CREATE] * 8], []), tmp_path)[0].world
    assert (world.retried, world.refused) == refused


def test_what_is_refused_in_both_worlds_is_counted(tmp_path: Path) -> None:
    world = replayed(Row("", [CREATE_BAD, REFUSED_POD, REFUSED_POD], []), tmp_path)[0].world
    assert (world.retried, world.refused, world.refused_in_log) == (1, 2, 2)


def test_denials_of_the_candidates_world(tmp_path: Path) -> None:
    """A request that is refused only there says why; a request that is refused taken alone keeps the reasons for that."""
    replayed(Row("", [CREATE_KEPT, UPDATE_BAD, DELETE], []), tmp_path)
    lines = map(orjson.loads, (tmp_path / "outcomes.jsonl").read_bytes().splitlines())
    told = [(line["candidate"], line.get("follows")) for line in lines]
    _, (alone, _), (there, follows) = told
    assert alone["verdict"] == "denied"
    assert "denials" not in alone["result"]
    assert there["verdict"] == "admitted"
    assert there["denials"] == there["result"]["denials"] == alone["denials"]
    assert follows == "id-1"


def test_denials_of_the_candidates_world_show_no_secret(tmp_path: Path) -> None:
    """What only the other world refuses says so in a message that is made of its object."""
    of_secret = [replace(each, resource="secrets") for each in (CREATE_KEPT, UPDATE_BAD, DELETE)]
    message = "'no ' + (object == null ? oldObject : object).data.p"
    expected: list[tuple[str, Any]] = [SUCCEEDS, DENIES, ("denied", 1)]
    assert replayed(Row("", of_secret, expected, message=message), tmp_path)[1] == expected
    text = (tmp_path / "outcomes.jsonl").read_bytes()
    assert SECRET_DATA["p"].encode() not in text
    assert b"secret-value" not in text
    told = [orjson.loads(line)["candidate"]["denials"] for line in text.splitlines()]
    assert [each["message"].startswith("no ") for denials in told for each in denials] == [True, True]
