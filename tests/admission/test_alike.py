"""Requests that are nearly alike, decided one after the other by one chain, and each by a chain that has decided nothing yet."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.admission.mutating import test_mutation
from tests.admission.validating.test_validating import attributes_from_admission_request, cases
from tests.support.chain_sets import POD
from tests.support.short_sample import SAMPLE

VALUES: tuple[JSON, ...] = (None, True, 0, 1, 1.0, "", "1", "web", [], [1], {}, {"name": "web"}, [{"name": "c"}])
UNKNOWN = ("not in the log", "logged without the object")
VARIANTS = 6

CASES = {case["name"]: case for case in cases()}
MUTATIONS = {row["name"]: row for row in test_mutation.ROWS}


def varied(value: JSON, path: str, random: Random) -> JSON:
    """An object with another part, with one part less, or with one that is not known."""
    value = copy.deepcopy(value)
    container = value
    while True:
        key = random.choice(list(container) if isinstance(container, dict) else range(len(container)))
        path += f".{key}" if isinstance(container, dict) else f"[{key}]"
        inner = container[key]
        if not (isinstance(inner, dict | list) and inner) or random.random() < 0.2:
            break
        container = inner
    kind = random.random()
    if kind < 0.2:
        del container[key]
    elif kind < 0.4:
        container[key] = missing = Missing(path, random.choice(UNKNOWN))
        return PartialObject(value, (missing,))
    else:
        container[key] = random.choice(VALUES)
    return value


def variants(attributes: Attributes, random: Random) -> Iterator[Attributes]:
    """A request, and some that differ from it in one part of an object, in the name, or in who asks."""
    yield attributes
    for _ in range(VARIANTS):
        changes: dict[str, Any] = {}
        for name in ("object", "old_object"):
            if isinstance(getattr(attributes, name), dict) and random.random() < 0.8:
                path = "object" if name == "object" else "oldObject"
                is_known = random.random() < 0.8
                value = getattr(attributes, name)
                changes[name] = varied(value, path, random) if is_known else Missing(path, random.choice(UNKNOWN))
        if random.random() < 0.2:
            changes["name"] = random.choice(("web", "other"))
        if isinstance(attributes.object, dict) and random.random() < 0.4:  # only what is its own
            own: dict[str, JSON] = {
                "name": random.choice(("web", "other")),
                "uid": random.choice(("1", "2")),
                "managedFields": [],
            }
            changes["object"] = {**attributes.object, "metadata": {**(attributes.object.get("metadata") or {}), **own}}
        if random.random() < 0.2:
            changes["user_info"] = UserInfo(random.choice(("alice", "bob")), "", ("dev",))
        yield replace(attributes, **changes)


def hold(decider: Callable[[], Callable[[Attributes], list[Decision]]], attributes: Attributes, seed: str) -> None:
    """Decide variants of a request twice, in one go and each by itself."""
    requests = list(variants(attributes, Random(seed)))
    decide = decider()
    together = [decide(each) for each in (*requests, *reversed(requests))]
    alone = [decider()(each) for each in requests]
    assert together == [*alone, *reversed(alone)]


def chain_decider(
    sets: list[ManifestSet], lister: ObjectTracker
) -> Callable[[], Callable[[Attributes], list[Decision]]]:
    def decider() -> Callable[[Attributes], list[Decision]]:
        chain = Chain(sets, NEWEST, builtin_discovery(), Schemas())
        return lambda attributes: chain.decide(attributes, attributes, lister)

    return decider


@pytest.mark.parametrize("name", CASES)
def test_validating(name: str) -> None:
    case = CASES[name]
    manifests = manifest_set_from_objects([], [*case["policies"], *case["bindings"]])
    lister = ObjectTracker([*case["namespaces"], *case["params"]])
    attributes = attributes_from_admission_request(case["request"], case["namespaces"])
    hold(chain_decider([manifests, manifests], lister), attributes, name)


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutating(name: str) -> None:
    sets = [ManifestSet(), test_mutation.set_of(MUTATIONS[name]["expression"])]
    hold(chain_decider(sets, ObjectTracker()), test_mutation.ATTRIBUTES, name)


def objects_of(name: str) -> list[JSON]:
    """The static policies of a set of the sample."""
    paths = sorted((SAMPLE / name).glob("[mv]ap/*.yaml"))
    return [each for path in paths for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("seed", ["a", "b", "c", "d"])
def test_sets(seed: str) -> None:
    """What one set mutates is validated by the policies of both, which share much."""
    sets = [manifest_set_from_objects(objects_of(name), []) for name in ("current", "candidate")]
    labels = {"app": "web", "team": "a", "logs": "sidecar"}
    pod = {**POD, "metadata": {**POD["metadata"], "labels": labels}}
    attributes = replace(test_mutation.ATTRIBUTES, object=pod)
    hold(chain_decider(sets, ObjectTracker()), attributes, seed)
    deletion = replace(attributes, operation=Operation.DELETE, object=None, old_object=pod, options={})
    hold(chain_decider(sets, ObjectTracker()), deletion, seed)
