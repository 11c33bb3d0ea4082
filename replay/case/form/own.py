"""The form of `replay` itself: files of `kind: Cases`, described in docs/cases.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

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
from replay.case.document import CaseDocument, Fields, read_documents, read_objects
from replay.case.policies import PolicyLoader, is_policy
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.gvk import GroupVersionResource, split_api_version

OPERATIONS = tuple(each.value for each in Operation)
API_VERSION, KIND = "replay/v1", "Cases"
FORM = "replay"

_SHARED = ("policies", "user", "namespace", "objects", "params", "authorizer")
FILE_FIELDS = ("apiVersion", "kind", *_SHARED, "cases")
CASE_FIELDS = (
    "name",
    "operation",
    "resource",
    "subresource",
    "objectName",
    "object",
    "oldObject",
    "validatedObject",
    "dryRun",
    "options",
    "missing",
    "expect",
    *_SHARED,
)
EXPECT_FIELDS = (
    "verdict",
    "policy",
    "binding",
    "message",
    "reason",
    "code",
    "denials",
    "warnings",
    "auditAnnotations",
    "patch",
    "object",
    "undetermined",
    "matches",
)
DENIAL_FIELDS = ("policy", "binding", "message", "reason", "code")
USER_FIELDS = ("username", "uid", "groups", "extra")
RESOURCE_FIELDS = ("group", "version", "resource")
MISSING_FIELDS = ("path", "reason", "fix")
ANSWER_FIELDS = (
    "decision",
    "verb",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "path",
    "user",
    "fieldSelector",
    "labelSelector",
    "reason",
    "error",
)
_VERDICTS = tuple(each.value for each in (Verdict.ADMITTED, Verdict.DENIED, Verdict.UNDETERMINED))
_DECISIONS: dict[str, bool | None] = {"allow": True, "deny": False, "unknown": None}


def is_own(value: JSON) -> bool:
    """Return whether a document has this form."""
    return isinstance(value, dict) and value.get("kind") == KIND and str(value.get("apiVersion")).startswith("replay/")


def read_own(path: Path, policies: PolicyLoader) -> CaseFile:
    """Return the cases of a file.

    Raises CaseError if the file as a whole cannot be used. A single case that cannot be used is `Unusable`.
    """
    cases: list[Case | Unusable] = []
    files = {str(path)}
    for document in read_documents(path):
        reader = _Reader(document, policies, files)
        cases.extend(reader.cases())
    return CaseFile(str(path), FORM, tuple(cases), tuple(sorted(files)))


def read_document(document: CaseDocument, policies: PolicyLoader) -> list[Case | Unusable]:
    """Return the cases of one document. Raises CaseError for errors that concern all of them."""
    return list(_Reader(document, policies, set()).cases())


class _Reader(Struct, frozen=True):
    """Reader of one document. `files` collects the files that it names."""

    document: CaseDocument
    policies: PolicyLoader
    files: set[str]

    def cases(self) -> Iterator[Case | Unusable]:
        """Yield the cases in order. Raises CaseError for errors that concern all of them."""
        file_fields = Fields.at(self.document, "", self.document.value, FILE_FIELDS)
        if file_fields.get("apiVersion") != API_VERSION:
            raise file_fields.error("apiVersion", f"is to be `{API_VERSION}`")
        if not file_fields.items("cases"):
            raise file_fields.error("cases", "is to be a list of cases")
        for index, value in enumerate(file_fields.items("cases")):
            name = str(value.get("name") or "") if isinstance(value, dict) else ""
            try:
                yield self._case(file_fields, index, value)
            except CaseError as error:
                yield Unusable(name or f"case {index}", error)
            except ManifestError as error:
                problem = CaseError(error.message, path=error.path, line=error.line, column=error.column)
                yield Unusable(name or f"case {index}", problem)

    def _case(self, file_fields: Fields, index: int, value: JSON) -> Case:
        fields = Fields.at(self.document, f"cases[{index}]", value, CASE_FIELDS)
        shared = {name: fields if fields.has(name) else file_fields for name in _SHARED}
        name = fields.text("name")
        if not name:
            raise fields.error("name", "is to say what is tested")
        objects = [*self._objects(shared["objects"], "objects"), *self._objects(shared["params"], "params")]
        return Case(
            name=name,
            path=str(self.document.path),
            line=self.document.position(f"cases[{index}].name").line,
            request=self._request(fields, shared),
            manifests=self._policies(shared["policies"], [obj for obj in objects if is_policy(obj)]),
            expected=self._expectation(fields),
            objects=tuple(obj for obj in objects if not is_policy(obj)),
            answers=_answers(shared["authorizer"]),
        )

    def _policies(self, fields: Fields, through_api: list[JSON]) -> ManifestSet:
        named = tuple(self._sibling_path(text) for text in fields.texts("policies"))
        paths = named or self.policies.paths
        if not paths and not through_api:
            raise fields.error("policies", "names nothing: give paths beside this file, or --policies")
        for path in paths:
            files = (each for each in path.rglob("*") if each.is_file()) if path.is_dir() else (path,)
            self.files.update(map(str, files))
        return self.policies.load(paths, through_api)

    def _request(self, fields: Fields, shared: dict[str, Fields]) -> CaseRequest:
        obj, old = self._object(fields, "object"), self._object(fields, "oldObject")
        namespace, namespace_object = self._namespace(shared["namespace"])
        stated = fields.has("validatedObject")
        return CaseRequest(
            operation=_operation(fields, obj, old),
            resource=_resource(fields),
            subresource=fields.text("subresource"),
            namespace=namespace,
            name=fields.text("objectName"),
            user_info=_user(shared["user"]),
            dry_run=fields.flag("dryRun"),
            options=fields.get("options") if fields.has("options") else UNSTATED,
            object=obj,
            old_object=old,
            validated_object=self._object(fields, "validatedObject") if stated else UNSTATED,
            namespace_object=namespace_object,
            missing=tuple(_missing(fields)),
        )

    def _object(self, fields: Fields, name: str) -> JSON:
        """Return an object, or the object in the file that a text names."""
        value = fields.get(name)
        if not isinstance(value, str):
            return value if value is None or isinstance(value, dict) else fields.mapping(name)
        objects = self._read(fields, name, value)
        if len(objects) != 1:
            raise fields.error(name, f"names a file with {len(objects)} objects, not one")
        return objects[0]

    def _objects(self, fields: Fields, name: str) -> Iterator[JSON]:
        for value in fields.items(name):
            if isinstance(value, str):
                yield from self._read(fields, name, value)
            elif isinstance(value, dict) and value.get("kind") and value.get("apiVersion"):
                yield value
            else:
                raise fields.error(name, "is to be a list of objects, with `apiVersion` and `kind`, or of paths")

    def _read(self, fields: Fields, name: str, text: str) -> list[JSON]:
        path = self._sibling_path(text)
        if not path.exists():
            raise fields.error(name, f"names {path}, which does not exist")
        self.files.add(str(path))
        return read_objects(path)

    def _sibling_path(self, text: str) -> Path:
        return self.document.path.parent / text

    def _namespace(self, fields: Fields) -> tuple[str, JSON]:
        """Return the name of the namespace, and the object if the case gives it."""
        value = fields.get("namespace")
        if value is None or isinstance(value, str):
            return value or "", None
        where = fields.where("namespace")
        if isinstance(value, dict) and "metadata" in value:
            return str(value["metadata"].get("name") or ""), value
        namespace = Fields.at(self.document, where, value, ("name", "labels", "annotations"))
        if not namespace.text("name"):
            raise namespace.error("name", "is to name the namespace")
        metadata = {
            key: namespace.get(key) for key in ("name", "labels", "annotations") if namespace.get(key) is not None
        }
        return namespace.text("name"), {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def _expectation(self, fields: Fields) -> Expectation:
        if not fields.mapping("expect"):
            raise fields.error("expect", "is to say what is expected")
        expected = Fields.at(self.document, fields.where("expect"), fields.get("expect"), EXPECT_FIELDS)
        verdict = expected.optional_text("verdict")
        if verdict is not None and verdict not in _VERDICTS:
            raise expected.error("verdict", f"is to be one of {', '.join(_VERDICTS)}")
        return Expectation(
            verdict=None if verdict is None else Verdict(verdict),
            first=_denial(expected),
            denials=self._denials(expected),
            warnings=expected.texts("warnings") if expected.has("warnings") else None,
            audit_annotations=expected.mapping("auditAnnotations") if expected.has("auditAnnotations") else None,
            patch=tuple(expected.items("patch")) if expected.has("patch") else None,
            object=self._object(expected, "object") if expected.has("object") else UNSTATED,
            undetermined=expected.texts("undetermined") if expected.has("undetermined") else None,
            matches=expected.flag("matches") if expected.has("matches") else None,
        )

    def _denials(self, fields: Fields) -> tuple[ExpectedDenial, ...] | None:
        if not fields.has("denials"):
            return None
        where = fields.where("denials")
        denials = enumerate(fields.items("denials"))
        return tuple(_denial(Fields.at(self.document, f"{where}[{i}]", each, DENIAL_FIELDS)) for i, each in denials)


def _denial(fields: Fields) -> ExpectedDenial:
    code = fields.get("code")
    if code is not None and not isinstance(code, int):
        raise fields.error("code", "is to be a number")
    policy, binding, message, reason = map(fields.optional_text, ("policy", "binding", "message", "reason"))
    return ExpectedDenial(policy, binding, message, reason, code)


def _operation(fields: Fields, obj: JSON, old: JSON) -> Operation:
    """Return the stated operation, or derive it: only a new object is CREATE, only an old one DELETE."""
    text = fields.optional_text("operation")
    if text is not None:
        if text not in OPERATIONS:
            raise fields.error("operation", f"is to be one of {', '.join(OPERATIONS)}")
        return Operation(text)
    if obj is None and old is None:
        raise fields.error("object", "is to be given, or `oldObject`, or `operation`")
    return Operation.DELETE if obj is None else Operation.CREATE if old is None else Operation.UPDATE


def _resource(fields: Fields) -> GroupVersionResource | None:
    """Return the resource of `pods`, `apps/v1/deployments`, or a mapping of the three parts. None if there is none."""
    value = fields.get("resource")
    if value is None:
        return None
    if isinstance(value, str):
        api_version, _, resource = value.rpartition("/")
        return GroupVersionResource(*split_api_version(api_version or "v1"), resource)
    resource_fields = Fields.at(fields.document, fields.where("resource"), value, RESOURCE_FIELDS)
    return GroupVersionResource(
        resource_fields.text("group"), resource_fields.text("version", "v1"), resource_fields.text("resource")
    )


def _user(fields: Fields) -> UserInfo:
    value = fields.get("user")
    if value is None or isinstance(value, str):
        return UserInfo(value or "")
    user = Fields.at(fields.document, fields.where("user"), value, USER_FIELDS)
    extra = {key: tuple(values) for key, values in user.mapping("extra").items() if isinstance(values, list)}
    return UserInfo(user.text("username"), user.text("uid"), user.texts("groups"), extra)


def _missing(fields: Fields) -> Iterator[Missing]:
    for index, value in enumerate(fields.items("missing")):
        missing = Fields.at(fields.document, f"{fields.where('missing')}[{index}]", value, MISSING_FIELDS)
        yield Missing(missing.text("path"), missing.text("reason", "the case does not state it"), missing.text("fix"))


def _answer(answer: Fields, allowed: bool | None) -> AuthorizerReply:
    return AuthorizerReply(
        allowed,
        verb=answer.optional_text("verb"),
        group=answer.optional_text("group"),
        resource=answer.optional_text("resource"),
        subresource=answer.optional_text("subresource"),
        namespace=answer.optional_text("namespace"),
        name=answer.optional_text("name"),
        path=answer.optional_text("path"),
        user=answer.optional_text("user"),
        field_selector=answer.optional_text("fieldSelector"),
        label_selector=answer.optional_text("labelSelector"),
        reason=answer.text("reason"),
        error=answer.text("error"),
    )


def _answers(fields: Fields) -> tuple[AuthorizerReply, ...] | None:
    if not fields.has("authorizer"):
        return None
    answers = []
    for index, value in enumerate(fields.items("authorizer")):
        answer = Fields.at(fields.document, f"{fields.where('authorizer')}[{index}]", value, ANSWER_FIELDS)
        decision = answer.text("decision")
        if decision not in _DECISIONS:
            raise answer.error("decision", f"is to be one of {', '.join(_DECISIONS)}")
        answers.append(_answer(answer, _DECISIONS[decision]))
    return tuple(answers)
