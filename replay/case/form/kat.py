"""Test directories of kat: a file for each part of a request, named `<policy>.<test>.<expected>.<part>.yaml`.

Policies and bindings are in the directory above `tests/`. Like kat, this runs one policy with one binding, and compares
messages without the server's prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.decision import Verdict
from replay.case.case import (
    UNSTATED,
    AuthorizerReply,
    Case,
    CaseError,
    CaseFile,
    CaseRequest,
    Expectation,
    ExpectedDenial,
    Unusable,
)
from replay.case.difference import plain
from replay.case.document import CaseDocument, Fields, read_documents
from replay.case.exported import (
    Exported,
    SinglePolicy,
    UnrepresentableError,
    single_policy,
    uses_optionals,
    yaml_text,
)
from replay.case.policies import PolicyLoader
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionResource
from replay.kube.json_patch import apply

FORM = "kat"
TESTS = "tests"
OPERATIONS = frozenset(each.value for each in Operation)
POLICY_FILES = ("policy.yaml", "policies.yaml", "policy.yml", "policies.yml")
BINDING_FILES = ("binding.yaml", "bindings.yaml", "binding.yml", "bindings.yml")
_POLICY_SUFFIXES = (".policy.yaml", ".policy.yml", ".binding.yaml", ".binding.yml")
_INPUTS = (
    ".request.yaml",
    ".object.yaml",
    ".oldObject.yaml",
    ".namespaceObject.yaml",
    ".params.yaml",
    ".annotations.yaml",
    ".warnings.txt",
    ".authorizer.yaml",
)
"""Suffixes of the files that define a test. `.gold.yaml` and `.message.txt` only accompany one."""
_REQUEST_FIELDS = (
    "apiVersion",
    "kind",
    "uid",
    "operation",
    "name",
    "namespace",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "userInfo",
    "object",
    "oldObject",
    "params",
    "namespaceObject",
    "options",
    "dryRun",
)


def is_kat(directory: Path) -> bool:
    """Return whether a directory has kat's form: policies, and `tests/` with at least one of its files."""
    tests = directory / TESTS
    if not tests.is_dir() or not any(_is_policy(each) for each in directory.iterdir()):
        return False
    return any(each.name.endswith(_INPUTS) for each in tests.iterdir())


def tested_directory(path: Path) -> Path | None:
    """Return the directory of kat's form whose tests are at a path: the path itself, or its parent. None if there is none."""
    directory = path.parent if path.name == TESTS and is_kat(path.parent) else path
    return directory if is_kat(directory) else None


def _is_policy(path: Path) -> bool:
    named = path.name in POLICY_FILES or path.name in BINDING_FILES or path.name.endswith(_POLICY_SUFFIXES)
    return named and path.is_file()


def read_kat(directory: Path, loader: PolicyLoader) -> CaseFile:
    """Return the tests of a directory. Raises CaseError if its policies cannot be read."""
    policy_files = sorted(each for each in directory.iterdir() if _is_policy(each))
    objects = [document.value for file in policy_files for document in read_documents(file)]
    policies = [str(obj["metadata"]["name"]) for obj in objects if str(obj.get("kind")).endswith("Policy")]
    tests = directory / TESTS
    inputs = sorted(each.name for each in tests.iterdir() if each.name.endswith(_INPUTS))
    bases = dict.fromkeys(_base(name) for name in inputs)
    cases = tuple(_case(_Test(tests, base, loader), objects, policies) for base in bases)
    files = (*map(str, policy_files), *(str(each) for each in sorted(tests.iterdir()) if each.is_file()))
    return CaseFile(str(directory), FORM, cases, files)


def _base(name: str) -> str:
    return next(name.removesuffix(suffix) for suffix in _INPUTS if name.endswith(suffix))


def _case(test: _Test, objects: list[JSON], policies: list[str]) -> Case | Unusable:
    try:
        return test.case(objects, policies)
    except CaseError as error:
        return Unusable(test.base, error)


class _Test(Struct, frozen=True):
    """The files of one test."""

    tests: Path
    base: str
    loader: PolicyLoader

    def case(self, objects: list[JSON], policies: list[str]) -> Case:
        """Return the case. Raises CaseError for files that cannot be read."""
        request = self._request()
        parts = {name: self._part(name, request) for name in ("object", "oldObject", "params", "namespaceObject")}
        policy = next((name for name in policies if self.base.startswith(f"{name}.")), None)
        policy = policies[0] if policy is None and len(policies) == 1 else policy
        if policy is None:
            raise CaseError(f"names none of the policies {', '.join(policies)}", path=str(self.tests / self.base))
        params = _named(parts["params"])
        chosen = self.loader.of_others(objects, only=policy, first_binding=True, params=params)
        return Case(
            name=self.base,
            path=str(self.tests / self._input_path()),
            line=0,
            request=self._case_request(request, parts),
            manifests=chosen.manifests,
            refusals=chosen.refusals,
            expected=self._expectation(
                parts["object"], mutates=any(each.phase == "mutating" for each in chosen.manifests.policies)
            ),
            objects=(params,) if params is not None else (),
            answers=tuple(self._answers()),
            strict=False,
        )

    def _input_path(self) -> str:
        return next(self.base + suffix for suffix in _INPUTS if (self.tests / (self.base + suffix)).is_file())

    def _path(self, suffix: str) -> Path | None:
        path = self.tests / f"{self.base}{suffix}"
        return path if path.is_file() else None

    def _document(self, suffix: str) -> CaseDocument | None:
        path = self._path(suffix)
        return None if path is None else next(iter(read_documents(path)), None)

    def _request(self) -> Fields | None:
        document = self._document(".request.yaml")
        return None if document is None else Fields.at(document, "", document.value, _REQUEST_FIELDS)

    def _part(self, name: str, request: Fields | None) -> JSON:
        """Return a part from its own file or from the request file. Raises CaseError if both have it."""
        document = self._document(f".{name}.yaml")
        inside = request.get(name) if request is not None else None
        if document is not None and inside is not None:
            raise document.error("", f"`{name}` stands in the request file too")
        return inside if document is None else document.value

    def _case_request(self, request: Fields | None, parts: Mapping[str, JSON]) -> CaseRequest:
        obj, old = parts["object"], parts["oldObject"]
        inferred = Operation.DELETE if obj is None else Operation.CREATE if old is None else Operation.UPDATE
        case_request = CaseRequest(
            operation=inferred, object=obj, old_object=old, namespace_object=parts["namespaceObject"]
        )
        if request is None:
            return case_request
        stated = request.text("operation")
        if stated and (stated not in OPERATIONS or (stated != inferred and (obj is not None or old is not None))):
            raise request.error("operation", f"is `{stated}`, and the objects given are those of {inferred.value}")
        return replace(
            case_request,
            operation=Operation(stated) if stated else inferred,
            resource=_resource(request),
            subresource=request.text("subResource"),
            namespace=request.text("namespace"),
            name=request.text("name"),
            user_info=user_info(request.mapping("userInfo")),
            dry_run=request.flag("dryRun"),
            options=request.get("options") if request.has("options") else UNSTATED,
        )

    def _expectation(self, obj: JSON, *, mutates: bool) -> Expectation:
        denied = ".deny." in self.base or self.base.endswith(".deny")
        gold, message = self._document(".gold.yaml"), self._path(".message.txt")
        annotations, warnings = self._document(".annotations.yaml"), self._path(".warnings.txt")
        lines = [] if warnings is None else warnings.read_text("utf-8").splitlines()
        said = tuple(line.strip() for line in lines if line.strip())
        text = "" if message is None else message.read_text("utf-8").strip()
        unchanged = obj if mutates and obj is not None else UNSTATED
        return Expectation(
            verdict=Verdict.DENIED if denied else Verdict.ADMITTED,
            first=ExpectedDenial(message=text or None),
            warnings=said or None,
            audit_annotations=None if annotations is None else annotations.value,
            object=unchanged if gold is None else gold.value,
            bare_texts=True,
        )

    def _answers(self) -> Iterator[AuthorizerReply]:
        """Yield the authorizer's answers. Without a file it has no opinion."""
        document = self._document(".authorizer.yaml")
        for each in [] if document is None else document.value:
            yield AuthorizerReply(
                each.get("decision") == "allow",
                verb=str(each.get("verb") or ""),
                group=str(each.get("group") or ""),
                resource=str(each.get("resource") or ""),
                subresource=str(each.get("subresource") or ""),
                namespace=str(each.get("namespace") or ""),
            )


def _named(params: JSON) -> JSON:
    """Return parameters with a name, so that a binding can refer to them. None if they are not an object."""
    if not isinstance(params, dict):
        return None
    metadata = params.get("metadata") or {}
    return {**params, "metadata": {**metadata, "name": metadata.get("name") or "params"}}


def _resource(request: Fields) -> GroupVersionResource | None:
    resource = request.mapping("resource")
    return (
        GroupVersionResource(resource.get("group") or "", resource.get("version") or "v1", resource["resource"])
        if resource
        else None
    )


def user_info(value: Mapping[str, JSON]) -> UserInfo:
    """Return the user of an `authentication.k8s.io` `UserInfo` in JSON."""
    extra = {key: tuple(texts) for key, texts in (value.get("extra") or {}).items()}
    return UserInfo(value.get("username") or "", value.get("uid") or "", tuple(value.get("groups") or ()), extra)


# A case as a directory for kat: the policy, its binding, and the files of one test.

_NEWER = re.compile(
    r"\.(?:all|exists|exists_?[oO]ne)\(\s*\w+\s*,\s*\w+\s*,|\.transform(?:List|Map|MapEntry)\(|\bcel\.bind\("
)


def kat_files(exported: Exported) -> dict[str, str]:
    """Return the files by path. Raises UnrepresentableError for what kat cannot represent or does not evaluate."""
    policy = single_policy(exported)
    _require(policy, exported)
    attributes = exported.original if policy.mutates else exported.validated
    decision = exported.decision
    base = f"tests/{policy.name}.{_slug(exported.name)}{'' if policy.mutates else '.deny'}"
    files = {"policy.yaml": yaml_text(policy.policy), f"{base}.request.yaml": yaml_text(_request(exported, attributes))}
    if policy.binding is not None:
        files["binding.yaml"] = yaml_text(policy.binding)
    if exported.answers:
        files[f"{base}.authorizer.yaml"] = yaml_text([_answer(each) for each in exported.answers])
    if policy.mutates:
        files[f"{base}.gold.yaml"] = yaml_text(apply(plain(attributes.object), list(decision.patch)))
    else:
        files[f"{base}.message.txt"] = decision.denials[0].message + "\n"
    return files


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "case"


def _require(policy: SinglePolicy, exported: Exported) -> None:
    """Raise UnrepresentableError for what kat 0.3 does not support."""
    spec = policy.policy["spec"]
    reasons = {
        "it knows no `variables`": bool(spec.get("variables")),
        "it has no optional values": uses_optionals(policy),
        "it ends where an expression fails, and has no failurePolicy": any(
            denial.is_error for denial in exported.decision.denials
        ),
        "it has no macros of two variables, and no cel.bind": any(_NEWER.search(each) for each in policy.expressions),
        "it gives one parameter to a policy": sum(1 for _ in _params(exported)) > 1,
        "it merges no lists, and tells numbers apart by their Go types": policy.mutates
        and not (all(map(_is_plain, exported.decision.patch)) and not any(map(_makes_list, policy.configurations))),
        "it tells `object` by the old one where there is none": exported.validated.operation is Operation.DELETE
        and any(re.search(r"(?<!old)\bobject\b", each) for each in policy.expressions),
        "it makes the resource of the kind alone": exported.validated.subresource != "",
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnrepresentableError(f"kat cannot hold it: {reason}")


def _makes_list(expression: str) -> bool:
    """Return whether an apply configuration may contain a list. kat replaces the existing list with it."""
    return re.search(r"\[|\.map\(|\.filter\(|\.transformList\(", expression) is not None


def _is_plain(operation: JSON) -> bool:
    """Return whether an operation changes only texts outside of lists."""
    in_list = any(part.isdigit() or part == "-" for part in operation["path"].split("/"))
    return not in_list and _is_of_texts(operation.get("value"))


def _is_of_texts(value: JSON) -> bool:
    """Return whether a value consists of maps and texts only."""
    if isinstance(value, dict):
        return all(map(_is_of_texts, value.values()))
    return isinstance(value, str)


def _params(exported: Exported) -> list[JSON]:
    return [obj for obj in exported.objects if obj.get("kind") != "CustomResourceDefinition"]


def _request(exported: Exported, attributes: Attributes) -> JSON:
    params = _params(exported)
    namespace = plain(attributes.namespace_object)
    fields: dict[str, JSON] = {
        "operation": attributes.operation.value,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "subResource": attributes.subresource,
        "userInfo": attributes.user_info.value,
        "object": plain(attributes.object),
        "oldObject": plain(attributes.old_object),
        "namespaceObject": _typed(namespace) if isinstance(namespace, dict) else None,
        "params": params[0] if params else None,
    }
    return {name: value for name, value in fields.items() if value}


def _typed(namespace: JSON) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", **namespace}


def _answer(answer: object) -> JSON:
    names = ("group", "resource", "subresource", "namespace", "verb")
    question = {name: getattr(answer, name) or "" for name in names}
    return {**question, "decision": "allow" if getattr(answer, "allowed", False) else "deny"}
