"""Random edits of policies: a run that takes over what a store keeps gives what a run from nothing gives, to the byte."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from replay.errors import ManifestError
from replay.pipeline.options import Options
from replay.pipeline.output import print_result, terminal_text
from replay.pipeline.replay.kept_result import RESULTS
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.json import summary_json

Document = dict[str, Any]
Edit = Callable[[random.Random, Document], None]

EXPRESSIONS = (
    "has(object.metadata) && object.metadata.name.size() < 20",
    "object == null || !has(object.metadata.labels) || object.metadata.labels.size() > 1",
    "oldObject == null || object == null || object.metadata.name == oldObject.metadata.name",
    "request.userInfo.username != 'system:serviceaccount:kube-system:replicaset-controller'",
    "namespaceObject == null || 'team' in namespaceObject.metadata.labels",
    "object.spec.replicas < 3",
    "authorizer.group('').resource('pods').namespace(request.namespace).check('delete').allowed()",
    "request.operation != 'DELETE' || oldObject.metadata.name.startsWith('a')",
    "false",
    "true",
)
MESSAGES = (
    "'no: ' + request.name",
    "object.metadata.name + ' is refused'",
    "'from ' + string(params.data.size())",
    "''",
)
RULES = (
    {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]},
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]},
    {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["*"]},
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods", "secrets", "services/*"]},
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["namespaces", "configmaps"]},
    {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["configmaps"],
        "resourceNames": ["kube-root-ca.crt"],
    },
)
SELECTORS: tuple[Document, ...] = (
    {"matchLabels": {"team": "pay"}},
    {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    {},
)


def _validation(chance: random.Random, policy: Document) -> None:
    validation = chance.choice(policy["spec"]["validations"])
    old = validation["expression"]
    validation["expression"] = chance.choice((*EXPRESSIONS, f"!({old})", f"({old}) || {chance.choice(EXPRESSIONS)}"))


def _message(chance: random.Random, policy: Document) -> None:
    validation = chance.choice(policy["spec"]["validations"])
    if chance.random() < 0.5:
        validation["messageExpression"] = chance.choice(MESSAGES)
    else:
        validation.pop("messageExpression", None)
        validation["message"] = f"message {chance.randrange(9)}"
    if chance.random() < 0.3:
        validation["reason"] = chance.choice(("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"))


def _more(chance: random.Random, policy: Document) -> None:
    policy["spec"]["validations"].append({"expression": chance.choice(EXPRESSIONS)})


def _condition(chance: random.Random, policy: Document) -> None:
    spec = policy["spec"]
    if spec.get("matchConditions") and chance.random() < 0.4:
        spec.pop("matchConditions")
    else:
        name = f"c{chance.randrange(1000)}"
        spec.setdefault("matchConditions", []).append({"name": name, "expression": chance.choice(EXPRESSIONS)})


def _variable(chance: random.Random, policy: Document) -> None:
    spec, name = policy["spec"], f"v{chance.randrange(1000)}"
    spec.setdefault("variables", []).append({"name": name, "expression": chance.choice(EXPRESSIONS)})
    spec["validations"].append(
        {"expression": f"variables.{name}", "messageExpression": f"'{name}: ' + string(variables.{name})"}
    )


def _annotation(chance: random.Random, policy: Document) -> None:
    annotations = policy["spec"].setdefault("auditAnnotations", [])
    value = chance.choice(("request.operation", "object.metadata.name", "'x' + request.name", "null"))
    annotations.append({"key": f"k{chance.randrange(1000)}", "valueExpression": value})


def _failure(chance: random.Random, policy: Document) -> None:
    policy["spec"]["failurePolicy"] = chance.choice(("Fail", "Ignore"))


def _rules(chance: random.Random, policy: Document) -> None:
    constraints = policy["spec"]["matchConstraints"]
    field = chance.choice(("resourceRules", "resourceRules", "excludeResourceRules"))
    rules = constraints.setdefault(field, [])
    if len(rules) > 1 and chance.random() < 0.4:
        rules.pop()
    else:
        rules.append(dict(chance.choice(RULES)))


def _selector(chance: random.Random, policy: Document) -> None:
    constraints = policy["spec"]["matchConstraints"]
    constraints[chance.choice(("namespaceSelector", "objectSelector"))] = chance.choice(SELECTORS)
    if chance.random() < 0.2:
        constraints["matchPolicy"] = chance.choice(("Exact", "Equivalent"))


def _bind(chance: random.Random, binding: Document) -> None:
    spec = binding["spec"]
    if chance.random() < 0.6:
        spec["validationActions"] = chance.choice((["Deny"], ["Warn"], ["Audit"], ["Deny", "Audit"], ["Warn", "Audit"]))
    else:
        spec["matchResources"] = {"namespaceSelector": chance.choice(SELECTORS)}


EDITS: tuple[Edit, ...] = (
    _validation,
    _message,
    _more,
    _condition,
    _variable,
    _annotation,
    _failure,
    _rules,
    _selector,
)


class Place(NamedTuple):
    """A file of a policy in one of two sets, and the set as it was at first."""

    path: Path
    original: Path

    @property
    def documents(self) -> list[Document]:
        return [each for each in yaml.safe_load_all(self.path.read_text(encoding="utf-8")) if each]

    def write(self, documents: list[Document], name: str = "") -> None:
        path = self.path.with_name(name) if name else self.path
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")


def _of_kind(documents: list[Document], end: str) -> list[Document]:
    return [each for each in documents if each["kind"].endswith(end)]


def _renamed(chance: random.Random, documents: list[Document], suffixes: Sequence[str]) -> None:
    """Another name, which may change its place among the policies; a static policy has another suffix than one of the API."""
    stem, suffix = f"{chance.choice('amz')}{chance.randrange(1000)}", chance.choice(suffixes)
    for each in _of_kind(documents, "Binding"):
        each["metadata"]["name"] = f"{stem}-binding{suffix}"
        each["spec"]["policyName"] = f"{stem}{suffix}"
    for each in _of_kind(documents, "Policy"):
        each["metadata"]["name"] = f"{stem}{suffix}"


def edit_policy(chance: random.Random, place: Place) -> None:
    documents = place.documents
    chance.choice(EDITS)(chance, chance.choice(_of_kind(documents, "Policy")))
    place.write(documents)


def edit_binding(chance: random.Random, place: Place) -> None:
    documents = place.documents
    _bind(chance, chance.choice(_of_kind(documents, "Binding")))
    place.write(documents)


def rename(chance: random.Random, place: Place) -> None:
    documents = place.documents
    _renamed(chance, documents, (".static.k8s.io", ""))
    place.write(documents)


def copy(chance: random.Random, place: Place) -> None:
    documents = place.documents
    _renamed(chance, documents, (".static.k8s.io", ""))
    place.write(documents, f"more-{chance.randrange(1000)}.yaml")


def parameters(chance: random.Random, place: Place) -> None:
    """Parameters of some kind, which a validation reads; no static policy has any."""
    documents, kind = place.documents, chance.choice(("ConfigMap", "Service", "Namespace"))
    _renamed(chance, documents, ("",))
    for policy in _of_kind(documents, "Policy"):
        policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": kind}
        policy["spec"]["validations"].append({"expression": "params == null || params.metadata.name.size() > 20"})
    for binding in _of_kind(documents, "Binding"):
        named: Document = chance.choice(({"name": "kube-root-ca.crt"}, {"name": "default"}, {"selector": {}}))
        binding["spec"]["paramRef"] = {**named, "parameterNotFoundAction": chance.choice(("Allow", "Deny"))}
    place.write(documents)


def remove(_chance: random.Random, place: Place) -> None:
    place.path.unlink()


def restore(chance: random.Random, place: Place) -> None:
    original = chance.choice(sorted(place.original.rglob("*.yaml")))
    shutil.copy(original, place.path.parents[1] / original.relative_to(place.original))


def mutate(chance: random.Random, place: Place) -> None:
    """Another mutating policy."""
    paths = sorted((place.path.parents[1] / "map").glob("*.yaml"))
    if not paths:
        return
    path = chance.choice(paths)
    if chance.random() < 0.3:
        path.unlink()
    else:
        path.write_text(path.read_text(encoding="utf-8").replace("pods", "services").replace("Always", "Never"))


WEIGHTS = {
    edit_policy: 60,
    edit_binding: 12,
    rename: 5,
    copy: 5,
    parameters: 5,
    remove: 4,
    restore: 6,
    mutate: 3,
}


def edited(chance: random.Random, sets: Path, originals: Path) -> str:
    """Edit one of two sets once, most often the candidate, and say what was edited."""
    side = "current" if chance.random() < 0.1 else "candidate"
    place = Place(chance.choice(sorted((sets / side / "vap").glob("*.yaml"))), originals / side)
    (edit,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
    edit(chance, place)
    return f"{edit.__name__} {side}/{place.path.name}"


def told(sets: Path, store: Path, workers: int = 1) -> str:
    """All that a run says: as JSON, and on the terminal in full."""
    (cluster,) = sets.glob("cluster.*")
    scenario = Scenario((), store=store, current=sets / "current", candidate=sets / "candidate", cluster=cluster)
    result = run(scenario, Options(workers=workers), lambda _what, _done, _total: None)
    return summary_json(result) + terminal_text(lambda console: print_result(result, console, full=True))


def edits(
    seed: int, count: int, sample: Path, store: Path, place: Path, workers: int = 1
) -> Iterator[tuple[str, bool]]:
    """Edit sets again and again, run them both ways, and yield what was edited and whether both came out the same.

    `workers` are those of the run that takes over what the store keeps.

    Where the server would refuse the set, both must refuse it, and the edit is undone.
    """
    chance, sets, kept, bare = random.Random(seed), place / "sets", place / "kept" / "store", place / "bare" / "store"
    before = place / "before"
    for name in ("current", "candidate"):
        shutil.copytree(sample / name, sets / name)
    for cluster in sample.glob("cluster.*"):
        shutil.copy(cluster, sets)
    shutil.copytree(store, kept)
    for _ in range(count):
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(sets, before)
        what = edited(chance, sets, sample)
        shutil.rmtree(bare, ignore_errors=True)
        shutil.copytree(store, bare, ignore=shutil.ignore_patterns(RESULTS))
        try:
            report = told(sets, kept, workers)
        except ManifestError as refusal:
            with pytest.raises(ManifestError, match=re.escape(str(refusal))):
                told(sets, bare)
            shutil.rmtree(sets)
            before.rename(sets)
            continue
        yield what, report == told(sets, bare)


def require_same(compared: Iterator[tuple[str, bool]]) -> None:
    """Some edits were compared, and each came out the same."""
    found = list(compared)
    assert found
    assert [what for what, is_same in found if not is_same] == []


@pytest.fixture(scope="module")
def store(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the results of the sample's own sets."""
    directory = tmp_path_factory.mktemp("edits") / "store"
    scenario = Scenario((str(short_sample),), store=directory).resolved()
    run(scenario, Options(workers=1), lambda _what, _done, _total: None)
    return directory


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_few_edits(workers: int, short_sample: Path, store: Path, tmp_path: Path) -> None:
    require_same(edits(0, 3, short_sample, store, tmp_path, workers))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 26))])
def test_many_edits(seed: int, short_sample: Path, store: Path, tmp_path: Path) -> None:
    require_same(edits(seed, 20, short_sample, store, tmp_path))
