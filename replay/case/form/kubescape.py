"""`tests.json` of Kubescape's library of admission policies: a template, changes of its fields, and `pass` or `fail`.

Its script creates all objects with `kubectl`, which accepts no field that a kind does not have. The policy is in the
same directory. Templates, bindings and parameters are in `test-resources/` at the top of the library, and the
definition of the parameters' kind is in `configuration/`.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

from msgspec import Struct, field

from replay.admission.decision import Verdict
from replay.case.case import Case, CaseError, CaseFile, CaseRequest, Expectation, ExpectedDenial, Unusable
from replay.case.document import CaseDocument, read_documents
from replay.case.policies import PolicyLoader
from replay.json import JSON
from replay.kube.attributes import Operation, UserInfo

FORM = "kubescape"
NAME = "tests.json"
_POLICY, _TEMPLATES = "policy.yaml", "test-resources"
_DEFINITION = Path("configuration") / "policy-configuration-definition.yaml"
_BINDING, _PARAMS = "policy-binding.yaml", "default-control-configuration.yaml"
_INDEX = re.compile(r"\[(\d+)\]")
_ADMIN = UserInfo("kubernetes-admin", "", ("system:masters", "system:authenticated"))


def is_kubescape(path: Path) -> bool:
    """Return whether a file has this form, by its name and surroundings."""
    return path.name == NAME and (path.parent / _POLICY).is_file() and _library(path) is not None


def _library(path: Path) -> Path | None:
    """Return the top of the library: the nearest parent directory with the templates. None if there is none."""
    return next((each for each in path.parents if (each / _TEMPLATES).is_dir()), None)


def read_kubescape(path: Path, loader: PolicyLoader) -> CaseFile:
    """Return the tests of a file. Raises CaseError if the file, or one that all its tests need, cannot be read."""
    library = _library(path)
    if library is None:
        raise CaseError(f"there is no directory {_TEMPLATES}/ above it", path=str(path))
    document = _only(path)
    if not isinstance(document.value, list):
        raise document.error("", "is not a list of tests")
    suite = _Suite(document, library, {str(path)}, loader)
    cases = tuple(suite.case(index, value) for index, value in enumerate(document.value))
    return CaseFile(str(path), FORM, cases, tuple(sorted(suite.files)))


def _only(path: Path) -> CaseDocument:
    documents = list(read_documents(path)) if path.is_file() else []
    if not documents:
        raise CaseError("there is no such file, or nothing in it", path=str(path))
    return documents[0]


class _Suite(Struct, frozen=True):
    """The tests of one policy. `files` collects the files that they name."""

    document: CaseDocument
    library: Path
    files: set[str]
    loader: PolicyLoader
    documents: dict[Path, JSON] = field(default_factory=dict)

    def case(self, index: int, test: JSON) -> Case | Unusable:
        """Return one test as a case."""
        name = str(test.get("name") or index)
        try:
            return self._case(index, name, test)
        except CaseError as error:
            return Unusable(name, error)

    def _case(self, index: int, name: str, test: JSON) -> Case:
        policy = self._read(self.document.path.parent / _POLICY)
        policy_name = policy["metadata"]["name"]
        params = _changed(self._template(test.get("param_template") or _PARAMS), f"metadata.name={policy_name}-params")
        binding = _changed(
            self._template(test.get("binding_template") or _BINDING),
            f"spec.policyName={policy_name}",
            f"metadata.name={policy_name}-binding",
            f"spec.paramRef.name={policy_name}-params",
        )
        expected = test.get("expected")
        if expected not in ("pass", "fail", "warn"):
            raise self.document.error(f"[{index}].expected", f"`{expected}` is none of pass, fail, warn")
        definition = self.library / _DEFINITION
        crds = (self._read(definition),) if definition.is_file() else ()
        obj = _changed(self._template(str(test.get("template"))), *(test.get("field_change_list") or ()))
        denied, chosen = expected == "fail", self.loader.of_others([policy, binding], strict=True)
        return Case(
            name=name,
            path=str(self.document.path),
            line=self.document.position(f"[{index}]").line,
            request=CaseRequest(operation=Operation.CREATE, object=obj, user_info=_ADMIN),
            manifests=chosen.manifests,
            refusals=chosen.refusals,
            expected=Expectation(
                verdict=Verdict.DENIED if denied else Verdict.ADMITTED,
                first=ExpectedDenial(policy=policy_name) if denied else ExpectedDenial(),
            ),
            objects=(params, *crds),
        )

    def _template(self, name: str) -> JSON:
        return copy.deepcopy(self._read(self.library / _TEMPLATES / name))

    def _read(self, path: Path) -> JSON:
        self.files.add(str(path))
        if path not in self.documents:
            self.documents[path] = _only(path).value
        return self.documents[path]


def _changed(obj: JSON, *changes: str) -> JSON:
    """Set fields of an object by `path.[0].name=value`, in place, and return it. Values are JSON if they can be parsed."""
    for change in changes:
        path, _, text = change.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        steps = [int(match[1]) if (match := _INDEX.fullmatch(step)) else step for step in path.split(".")]
        _put(obj, steps, value, change)
    return obj


def _put(obj: JSON, steps: list[str | int], value: JSON, change: str) -> None:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(obj, list) and isinstance(step, int):
            obj += [None] * (step + 1 - len(obj))
            child = obj[step]
        elif isinstance(obj, dict) and isinstance(step, str):
            child = obj.get(step)
        else:
            raise CaseError(f"`{change}` does not fit the template")
        if following is None:
            obj[step] = value
            return
        if child is None:
            child = obj[step] = [] if isinstance(following, int) else {}
        obj = child
