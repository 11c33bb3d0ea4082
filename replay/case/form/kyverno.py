"""`kyverno-test.yaml`. Results for native policies become requests, and results for Kyverno's kinds go to its engine.

A result names a policy, resources and the expected outcome: `pass`, `fail` (or `warn`), or `skip` if the policy is not
evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from replay.admission.decision import Verdict
from replay.case.case import (
    UNSTATED,
    Case,
    CaseError,
    CaseFile,
    CaseRequest,
    EngineCase,
    Expectation,
    ExpectedDenial,
    Unusable,
)
from replay.case.difference import plain
from replay.case.document import CaseDocument, read_documents, read_objects
from replay.case.exported import Exported, UnrepresentableError, single_policy, yaml_text
from replay.case.form.kat import user_info
from replay.case.form.kyverno_policy import PolicyTest, deciding_policies, kyverno_policy_files, namespace_fields
from replay.case.policies import PolicyLoader
from replay.json import JSON
from replay.kube.admissionregistration import POLICY_KINDS
from replay.kube.attributes import Operation, UserInfo
from replay.kube.gvk import split_api_version
from replay.kube.json_patch import apply

FORM = "kyverno"
NAMES = ("kyverno-test.yaml", "kyverno-test.yml")
_GROUPS = ("cli.kyverno.io/", "kyverno.io/")
_POLICY_GROUP = "admissionregistration.k8s.io"
_NATIVE = ("isValidatingAdmissionPolicy", "isMutatingAdmissionPolicy")
_VERDICTS = {"pass": Verdict.ADMITTED, "skip": Verdict.ADMITTED, "fail": Verdict.DENIED, "error": Verdict.DENIED}
_WARN = "warn"


def is_kyverno(value: JSON) -> bool:
    """Return whether a document is a test of Kyverno's command line."""
    return isinstance(value, dict) and value.get("kind") == "Test" and str(value.get("apiVersion")).startswith(_GROUPS)


def read_kyverno(path: Path, loader: PolicyLoader) -> CaseFile:
    """Return a case for each expected result and resource of a file. Raises CaseError for files that cannot be read."""
    cases: list[Case | EngineCase | Unusable] = []
    files = {str(path)}
    for document in read_documents(path):
        if is_kyverno(document.value):
            native = _Test(document, files, loader)
            cases.extend(native.cases())
            cases.extend(PolicyTest(document, files).cases(native.is_native))
    return CaseFile(str(path), FORM, tuple(cases), tuple(sorted(files)))


class _Test(Struct, frozen=True):
    """One test. `files` collects the files that it names."""

    document: CaseDocument
    files: set[str]
    loader: PolicyLoader

    def cases(self) -> Iterator[Case | Unusable]:
        """Yield the cases of its results for native policies. Raises CaseError if it names a file that does not exist."""
        value = self.document.value
        policies = self._policies()
        results = [(index, each) for index, each in enumerate(value.get("results") or ()) if self.is_native(each)]
        if not results:
            return
        resources = self._objects([*(value.get("resources") or ()), *(value.get("targetResources") or ())])
        params = self._objects([*(value.get("paramResources") or ()), *(value.get("clusterResources") or ())])
        shared = (*params, *self._namespaces(value))
        for index, result in results:
            for resource in self._named_resources(resources, result):
                try:
                    yield self._case(index, result, resource, policies, shared)
                except CaseError as error:
                    yield Unusable(str(result.get("policy")), error)

    def is_native(self, result: Mapping[str, JSON]) -> bool:
        """Return whether a result is about a native policy of Kubernetes."""
        own = {obj["metadata"]["name"] for obj in self._policies() if obj["kind"] in POLICY_KINDS}
        return result.get("policy") in own and (any(map(result.get, _NATIVE)) or not _is_of_kyverno(result))

    def _policies(self) -> list[JSON]:
        return [obj for obj in self._objects(self.document.value.get("policies")) if _group(obj) == _POLICY_GROUP]

    def _case(
        self, index: int, result: Mapping[str, JSON], resource: JSON, policies: list[JSON], shared: tuple[JSON, ...]
    ) -> Case:
        policy, verdict_text = str(result["policy"]), str(result.get("result") or result.get("status") or "")
        if verdict_text not in _VERDICTS and verdict_text != _WARN:
            raise self.document.error(f"results[{index}].result", f"`{verdict_text}` is not a result")
        name = (resource.get("metadata") or {}).get("name", "")
        operation = Operation(result.get("operation") or Operation.CREATE)
        deleted = operation is Operation.DELETE
        chosen = self.loader.of_others(policies, only=policy, strict=True)
        return Case(
            name=f"{policy} {resource.get('kind')}/{name} {verdict_text}",
            path=str(self.document.path),
            line=self.document.position(f"results[{index}]").line,
            request=CaseRequest(
                operation=operation,
                user_info=self._user(),
                object=None if deleted else resource,
                old_object=resource if operation in (Operation.DELETE, Operation.UPDATE) else None,
            ),
            manifests=chosen.manifests,
            refusals=chosen.refusals,
            expected=self._expectation(result, verdict_text, resource, policy),
            objects=shared,
            strict=False,
        )

    def _expectation(self, result: Mapping[str, JSON], verdict_text: str, resource: JSON, policy: str) -> Expectation:
        patched_resource = result.get("patchedResources") or result.get("patchedResource")
        obj: JSON = UNSTATED
        if patched_resource:
            objects = [each for each in self._objects([patched_resource]) if _identity(each) == _identity(resource)]
            obj = objects[0] if objects else UNSTATED
        verdict = Verdict.ADMITTED if verdict_text == _WARN else _VERDICTS[verdict_text]
        first = ExpectedDenial(policy=policy) if verdict is Verdict.DENIED else ExpectedDenial()
        matches = {"skip": False, "pass": True}.get(verdict_text)
        return Expectation(verdict=verdict, first=first, object=obj, matches=matches)

    def _named_resources(self, resources: Iterable[JSON], result: Mapping[str, JSON]) -> list[JSON]:
        """Return the resources of a result: those that it names, or else all of its kind."""
        names = [str(name) for name in result.get("resources") or ()] or [str(result.get("resource") or "")]
        kind = str(result.get("kind") or "").rpartition("/")[2]
        of_kind = [each for each in resources if not kind or each.get("kind") == kind]
        if names == [""]:
            return of_kind
        return [each for each in of_kind if any(_is_named(each, name) for name in names)]

    def _user(self) -> UserInfo:
        path = self.document.value.get("userinfo")
        documents = self._documents(str(path)) if path else []
        document = documents[0] if documents else {}
        return user_info(document.get("userInfo") or (document.get("spec") or {}).get("userInfo") or {})

    def _namespaces(self, value: Mapping[str, JSON]) -> Iterator[JSON]:
        """Yield the namespaces whose labels are in the values file."""
        path = value.get("variables")
        for document in self._documents(str(path)) if path else ():
            selectors = document.get("namespaceSelector") or (document.get("spec") or {}).get("namespaceSelector") or ()
            for each in selectors:
                metadata = {"name": each.get("name"), "labels": each.get("labels") or {}}
                yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def _documents(self, text: str) -> list[JSON]:
        path = self.document.path.parent / text
        if not path.is_file():
            raise self.document.error("", f"names {path}, which does not exist")
        self.files.add(str(path))
        return [each.value for each in read_documents(path)]

    def _objects(self, paths: Iterable[JSON] | None) -> list[JSON]:
        objects: list[JSON] = []
        for text in paths or ():
            path = self.document.path.parent / str(text)
            if not path.exists():
                raise self.document.error("", f"names {path}, which does not exist")
            self.files.add(str(path))
            objects += read_objects(path)
        return objects


def _is_of_kyverno(result: Mapping[str, JSON]) -> bool:
    """Return whether a result says that its policy is of one of Kyverno's kinds, or names a rule."""
    own = (name for name in result if name.startswith("is") and name.endswith("Policy") and name not in _NATIVE)
    return bool(result.get("rule")) or any(result[name] for name in own)


def _group(obj: JSON) -> str:
    return split_api_version(str(obj.get("apiVersion") or ""))[0]


def _identity(obj: JSON) -> tuple[JSON, ...]:
    metadata = obj.get("metadata") or {}
    return obj.get("kind"), metadata.get("name"), metadata.get("namespace") or "default"


def _is_named(obj: JSON, name: str) -> bool:
    """Return whether `name` or `namespace/name` names an object."""
    metadata = obj.get("metadata") or {}
    own, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "default")
    return name in (own, f"{namespace}/{own}")


# A case as a test of Kyverno's command line: the policy, the resource, the user and the namespace.

_API_VERSION = "cli.kyverno.io/v1alpha1"


def kyverno_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for what such a test cannot represent."""
    if deciding_policies(exported):
        return kyverno_policy_files(exported)
    policy = single_policy(exported)
    attributes = exported.original if policy.mutates else exported.validated
    if attributes.operation is not Operation.CREATE or attributes.subresource:
        raise UnrepresentableError("a test of kyverno creates a resource, and does nothing else")
    if exported.answers:
        raise UnrepresentableError("a test of kyverno has no authorizer")
    resource = plain(attributes.object)
    name = (resource.get("metadata") or {}).get("name")
    if not name:
        raise UnrepresentableError("a test of kyverno names its resource, and the name was to be generated")
    result: dict[str, JSON] = {
        f"is{policy.policy['kind']}": True,
        "kind": attributes.kind.kind,
        "policy": policy.name,
        "resources": [name],
        "result": "pass" if policy.mutates else "fail",
    }
    policies = [policy.policy, *([policy.binding] if policy.binding is not None else [])]
    files = {
        "policy.yaml": "---\n".join(map(yaml_text, policies)),
        "resource.yaml": yaml_text(resource),
        "userinfo.yaml": yaml_text(_kind("UserInfo", "user", userInfo=attributes.user_info.value)),
    }
    test: dict[str, JSON] = {"policies": ["policy.yaml"], "resources": ["resource.yaml"], "userinfo": "userinfo.yaml"}
    if policy.mutates:
        result["patchedResources"] = "patched-resource.yaml"
        files["patched-resource.yaml"] = yaml_text(apply(resource, list(exported.decision.patch)))
    if attributes.namespace:
        test["variables"] = "values.yaml"
        files["values.yaml"] = yaml_text(_kind("Values", "values", namespaceSelector=[namespace_fields(attributes)]))
    if exported.objects:
        test["paramResources"] = ["params.yaml"]
        files["params.yaml"] = "---\n".join(map(yaml_text, exported.objects))
    files["kyverno-test.yaml"] = yaml_text(_kind("Test", "case", **test, results=[result]))
    return files


def _kind(kind: str, name: str, **fields: JSON) -> JSON:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}
