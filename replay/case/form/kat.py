"""Test directories of kat: a file for each part of a request, named `<policy>.<test>.<expected>.<part>.yaml`.

Policies and bindings are in the directory above `tests/`. Like kat, this runs one policy with one binding, and compares
messages without the server's prefix.
"""

from __future__ import annotations

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
from replay.case.document import CaseDocument, Fields, read_documents
from replay.case.policies import PolicyLoader
from replay.json import JSON
from replay.kube.attributes import Operation, UserInfo
from replay.kube.gvk import GroupVersionResource

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
            path=str(self.tests / self._first()),
            line=0,
            request=self._asked(request, parts),
            manifests=chosen.manifests,
            refusals=chosen.refusals,
            expected=self._expectation(parts["object"], mutates=bool(chosen.manifests.mutating_policies)),
            objects=(params,) if params is not None else (),
            answers=tuple(self._answers()),
            strict=False,
        )

    def _first(self) -> str:
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

    def _asked(self, request: Fields | None, parts: Mapping[str, JSON]) -> CaseRequest:
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
