"""External data: undetermined, or what recorded answers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.cellib.version import NEWEST, Versions
from replay.errors import ReplayError
from replay.gatekeeper.engine import GatekeeperEngine
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.pipeline.manifests import Manifests, with_provider_answers

REGO = """\
package signed
violation[{"msg": msg}] {
  images := [c.image | c := input.review.object.spec.containers[_]]
  response := external_data({"provider": "signatures", "keys": images})
  msg := sprintf("%v %v %v", [response.responses, response.errors, response.status_code])
}
"""
TEMPLATE = {
    "apiVersion": "templates.gatekeeper.sh/v1",
    "kind": "ConstraintTemplate",
    "metadata": {"name": "signed"},
    "spec": {
        "crd": {"spec": {"names": {"kind": "Signed"}}},
        "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": REGO}],
    },
}
CONSTRAINT = {
    "apiVersion": "constraints.gatekeeper.sh/v1beta1",
    "kind": "Signed",
    "metadata": {"name": "s"},
    "spec": {},
}
PROVIDER = {
    "apiVersion": "externaldata.gatekeeper.sh/v1beta1",
    "kind": "Provider",
    "metadata": {"name": "signatures"},
    "spec": {"url": "https://signatures.example", "timeout": 3},
}
RESPONSES = (
    '{"kind": "ProviderResponse", "response": {"idempotent": true, "items": [{"key": "a", "value": "valid"}, '
    '{"key": "b", "error": "no signature"}]}}\n{"response": {"items": [{"key": "c", "value": {"by": "us"}}]}}\n'
)


def request(*images: str) -> JSON:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]},
    }
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {"uid": "", "kind": kind, "resource": resource, "operation": "CREATE", "userInfo": {}, "object": pod}


def manifests(*objects: JSON) -> Manifests:
    return Manifests(Versions(NEWEST, NEWEST), (), ManifestSet(), ManifestSet(engine_objects=objects))


ROWS = [
    ("a value and an error", ("a", "b"), ['[s] [["a", "valid"]] [["b", "no signature"]] 200']),
    ("a value that is an object", ("c",), ['[s] [["c", {"by": "us"}]] [] 200']),
    ("no answer", ("d",), "Signed/s: the recording has no answer of the provider signatures about 'd'"),
]


@pytest.mark.parametrize(("images", "results"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_recorded_answers(tmp_path: Path, images: tuple[str, ...], results: str | list[str]) -> None:
    (tmp_path / "answers.jsonl").write_text(RESPONSES, "utf-8")
    options = [f"signatures={tmp_path / 'answers.jsonl'}", "w=recorded"]
    found, others = with_provider_answers(manifests(TEMPLATE, CONSTRAINT, PROVIDER), options)
    assert others == ["w=recorded"]
    assert found.candidate is not None
    result = GatekeeperEngine(found.candidate.engine_objects, []).results(None, request(*images))
    assert (result["undetermined"][0] if "undetermined" in result else result["validate"]["denials"]) == results


def test_without_answers() -> None:
    result = GatekeeperEngine([TEMPLATE, CONSTRAINT, PROVIDER], []).results(None, request("a"))
    assert result == {
        "undetermined": ["Signed/s: the answers of the provider signatures are not known (--webhook signatures=FILE)"]
    }


def test_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"response": {"items": [{"value": 1}]}}\n', "utf-8")
    with pytest.raises(ReplayError, match=r"answers\.jsonl:1: is no ProviderResponse with `response\.items`"):
        with_provider_answers(manifests(PROVIDER), [f"signatures={tmp_path / 'answers.jsonl'}"])
