"""`kind: Suite` of gator: tests of Gatekeeper's templates and constraints, or of native policies and bindings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from replay.admission.decision import Verdict
from replay.case.case import CannotRunError, Case, CaseError, CaseFile, CaseRequest, EngineCase, Expectation, Unusable
from replay.case.document import CaseDocument, Fields, read_documents
from replay.case.exported import Exported, UnrepresentableError, yaml_text
from replay.case.form.kat import user_info
from replay.case.form.review import review
from replay.case.policies import PolicyLoader
from replay.gatekeeper.constraint import GATOR
from replay.gatekeeper.expansion import ExpansionError
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.review import ReviewError, Violation
from replay.gatekeeper.suite import SuiteTest, assertion_differences
from replay.gatekeeper.template import engines_of
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.engine_policy import policy_name

FORM = "gator"
_GROUP = "test.gatekeeper.sh/"
_REVIEW = "AdmissionReview"
_POLICY_GROUP = "admissionregistration.k8s.io/"
_TEMPLATE = "ConstraintTemplate"
_TEST_FIELDS = ("name", "template", "constraint", "expansion", "cases", "skip", "invalid", "only")
_CASE_FIELDS = ("name", "object", "inventory", "assertions", "skip")


def is_gator(value: JSON) -> bool:
    """Return whether a document is a suite."""
    return isinstance(value, dict) and value.get("kind") == "Suite" and str(value.get("apiVersion")).startswith(_GROUP)


def read_gator(path: Path, loader: PolicyLoader) -> CaseFile:
    """Return the cases of the suites in a file. Raises CaseError for files that cannot be read."""
    cases: list[Case | EngineCase | Unusable] = []
    files = {str(path)}
    for document in read_documents(path):
        if is_gator(document.value):
            cases.extend(_Suite(document, files, loader).cases())
    return CaseFile(str(path), FORM, tuple(cases), tuple(sorted(files)))


class _Suite(Struct, frozen=True):
    """One suite. `files` collects the files that it names."""

    document: CaseDocument
    files: set[str]
    loader: PolicyLoader

    def cases(self) -> Iterator[Case | EngineCase | Unusable]:
        """Yield the cases of all tests. A test of a template has one for each assertion and engine."""
        if self.document.value.get("skip"):
            yield self._skipped("all tests", "")
            return
        for number, value in enumerate(self.document.value.get("tests") or ()):
            test = Fields.at(self.document, f"tests[{number}]", value, _TEST_FIELDS)
            named = [test.text(name) for name in ("template", "constraint", "expansion") if test.text(name)]
            policies = [obj for name in named for obj in self._read(test, name)]
            template = next((obj for obj in policies if obj.get("kind") == _TEMPLATE), None)
            if test.flag("skip"):
                yield self._skipped(test.text("name"), test.path)
                continue
            if template is not None:
                for engine in engines_of(template):
                    yield from self._engine_cases(test, SuiteTest(policies, engine), engine)
                continue
            if not any(str(obj.get("apiVersion")).startswith(_POLICY_GROUP) for obj in policies):
                continue
            for index, each in enumerate(test.items("cases")):
                fields = Fields.at(self.document, test.where(f"cases[{index}]"), each, _CASE_FIELDS)
                if fields.flag("skip"):
                    yield self._skipped(f"{test.text('name')}/{fields.text('name')}", fields.path)
                    continue
                name = f"{test.text('name')}/{fields.text('name')}"
                try:
                    yield self._case(fields, name, policies)
                except CaseError as error:
                    yield Unusable(name, error)

    def _engine_cases(self, test: Fields, asked: SuiteTest, engine: str) -> Iterator[EngineCase | Unusable]:
        """Yield one case for each assertion about a template's objects."""
        path, name = str(self.document.path), test.text("name")
        if test.flag("invalid"):
            line = self.document.position(test.path).line
            yield EngineCase(f"{name} [{engine}]", path, line, asked.invalid_differences)
            return
        for index, each in enumerate(test.items("cases")):
            fields = Fields.at(self.document, test.where(f"cases[{index}]"), each, _CASE_FIELDS)
            if fields.flag("skip"):
                yield self._skipped(f"{name}/{fields.text('name')} [{engine}]", fields.path)
                continue
            decide = cache(partial(self._decided, fields, asked))
            assertions = list(fields.items("assertions"))
            for number, assertion in enumerate(assertions, 1):
                place = f"{fields.path}.assertions[{number - 1}]"
                title = f"{name}/{fields.text('name')} [{engine}]" + (f" assertion {number}" if assertions[1:] else "")
                yield EngineCase(
                    title, path, self.document.position(place).line, partial(_asserted, decide, dict(assertion))
                )
            if not assertions:
                yield Unusable(f"{name}/{fields.text('name')}", fields.error("assertions", "must not be empty"))

    def _skipped(self, name: str, place: str) -> EngineCase:
        """Return a case that the suite skips."""
        return EngineCase(name, str(self.document.path), self.document.position(place).line, _is_skipped)

    def _decided(self, fields: Fields, asked: SuiteTest) -> tuple[list[Violation], list[str]]:
        """Return the violations of a case's object. Raises CaseError."""
        if asked.refused:
            raise fields.error("object", f"cannot be decided: {asked.refused[0]}")
        objects = self._read(fields, fields.text("object"))
        if len(objects) != 1:
            raise fields.error("object", f"names a file with {len(objects)} objects, not one")
        inventory = [obj for text in fields.texts("inventory") for obj in self._read(fields, text)]
        try:
            return asked.violations(objects[0], inventory)
        except (ReviewError, ExpansionError) as error:
            raise fields.error("object", f"cannot be reviewed: {error}") from None

    def _case(self, fields: Fields, name: str, policies: list[JSON]) -> Case:
        objects = self._read(fields, fields.text("object"))
        if len(objects) != 1:
            raise fields.error("object", f"names a file with {len(objects)} objects, not one")
        denied, chosen = self._is_violated(fields), self.loader.of_others(policies)
        inventory = [obj for text in fields.texts("inventory") for obj in self._read(fields, text)]
        return Case(
            name=name,
            path=str(self.document.path),
            line=self.document.position(fields.path).line,
            request=_request(objects[0]),
            manifests=chosen.manifests,
            refusals=chosen.refusals,
            expected=Expectation(verdict=Verdict.DENIED if denied else Verdict.ADMITTED),
            objects=tuple(inventory),
            strict=False,
        )

    @staticmethod
    def _is_violated(fields: Fields) -> bool:
        """Return whether the assertions expect a violation: `yes` (the default), `no`, or a number."""
        violations = [each.get("violations", "yes") for each in fields.items("assertions")]
        return any(each not in ("no", 0, False) for each in violations)

    def _read(self, fields: Fields, text: str) -> list[JSON]:
        path = self.document.path.parent / text
        if not path.is_file():
            raise fields.document.error(fields.path, f"names {path}, which does not exist")
        self.files.add(str(path))
        return [document.value for document in read_documents(path)]


def _is_skipped() -> list[str]:
    raise CannotRunError("the suite says `skip`")


def _asserted(decide: Callable[[], tuple[list[Violation], list[str]]], assertion: JSON) -> list[str]:
    """Return the differences of the violations from an assertion."""
    violations, unknown = decide()
    return [f"undetermined: {reason}" for reason in unknown] or assertion_differences(assertion, violations)


def _request(value: JSON) -> CaseRequest:
    """Return the request that creates an object, or that of an AdmissionReview."""
    if value.get("kind") != _REVIEW:
        return CaseRequest(operation=Operation.CREATE, object=value)
    request = value.get("request") or {}
    return CaseRequest(
        operation=Operation(request.get("operation") or Operation.CREATE),
        subresource=request.get("subResource") or "",
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
        user_info=user_info(request.get("userInfo") or {}),
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


# A case as a gator suite: a template with one constraint per denial, the request, and the looked-up objects.

_API_VERSION = "test.gatekeeper.sh/v1alpha1"
_META, _ESCAPED = re.compile(r"([\\.+*?()|\[\]{}^$])"), r"\\\1"
"""Characters with a special meaning in Go's regular expressions."""
_REVIEW_FILE, _INVENTORY = "review.yaml", "inventory.yaml"


def gator_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for a case that a suite cannot represent."""
    denying = dict.fromkeys(denial.policy for denial in exported.decision.denials if denial.of_webhook)
    constraints = {policy_name(each): each for each in exported.engine_objects}
    named = [name for name in denying if name in constraints]
    if not named:
        raise UnrepresentableError("no constraint of Gatekeeper denies it")
    templates = {str(each["metadata"]["name"]): each for each in exported.engine_objects if "targets" in _spec(each)}
    request = {key: value for key, value in review(exported).items() if key != "response"}
    inventory = [*exported.objects, *_namespaces(exported)]
    files: dict[str, str] = {_REVIEW_FILE: yaml_text(request)}
    tests: list[JSON] = []
    for name in named:
        constraint = constraints[name]
        template = templates[str(constraint["kind"]).lower()]
        paths = f"template-{template['metadata']['name']}.yaml", f"constraint-{constraint['metadata']['name']}.yaml"
        files |= dict(zip(paths, (yaml_text(_as_written(template)), yaml_text(_as_written(constraint))), strict=True))
        case = {
            "name": exported.name,
            "object": _REVIEW_FILE,
            **({"inventory": [_INVENTORY]} if inventory else {}),
            "assertions": _assertions(template, constraint, request, inventory),
        }
        tests.append({"name": name, "template": paths[0], "constraint": paths[1], "cases": [case]})
    if inventory:
        files[_INVENTORY] = "---\n".join(map(yaml_text, inventory))
    suite = {"apiVersion": _API_VERSION, "kind": "Suite", "metadata": {"name": "replay"}, "tests": tests}
    return {"suite.yaml": yaml_text(suite), **files}


def _assertions(template: JSON, constraint: JSON, request: JSON, inventory: list[JSON]) -> list[JSON]:
    """Return one assertion for each message, in the words of gator's enforcement point."""
    bare = [_as_written(template), _as_written(constraint)]
    (own,) = GatekeeperPolicies(bare).constraints.values()
    if not own.actions_at(GATOR):
        raise UnrepresentableError(f"{own.key} does not act at the enforcement point of gator, {GATOR}")
    violations, unknown = SuiteTest(bare, "").violations(request, inventory)
    if unknown:
        raise UnrepresentableError(f"{own.key} cannot be decided without the cluster: {unknown[0]}")
    messages = [violation.message for violation in violations]
    if not messages:
        raise UnrepresentableError(
            f"gator finds no violation of {own.key}: the object that is denied is one that it expands to"
        )
    return [
        {"violations": messages.count(message), "message": f"^{_META.sub(_ESCAPED, message)}$"}
        for message in dict.fromkeys(messages)
    ]


def _spec(value: JSON) -> JSON:
    return value.get("spec") or {}


def _as_written(value: JSON) -> JSON:
    """Return an object without the fields that only a stored object has."""
    metadata = {"name": value["metadata"]["name"]}
    return {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": metadata, "spec": _spec(value)}


def _namespaces(exported: Exported) -> list[JSON]:
    """Return the namespace of the request, which selectors read."""
    namespace = exported.validated.namespace_object
    return [{"apiVersion": "v1", "kind": "Namespace", **namespace}] if isinstance(namespace, dict) else []
