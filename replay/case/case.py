"""A case: one request with everything that its decision depends on, and the expectation.

This module decides nothing. `replay.case.decide` runs the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field

from replay.admission.decision import Verdict
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.gvk import GroupVersionResource


class CaseError(ReplayError):
    """A case, or a file of cases, that cannot be used."""


class CannotRunError(CaseError):
    """A valid case that needs a decision which is not supported."""


class _Unstated(Enum):
    """The type of `UNSTATED`."""

    UNSTATED = "unstated"


NO_USER: Final = UserInfo()
UNSTATED: Final = _Unstated.UNSTATED
"""Value of a field that a case does not state, for fields in which null has a meaning."""


class AuthorizerReply(Struct, frozen=True):
    """Answer of a case's authorizer. A None field matches any question.

    `allowed` None means an unknown answer, with the `reason`.
    """

    allowed: bool | None
    verb: str | None = None
    group: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    path: str | None = None
    user: str | None = None
    field_selector: str | None = None
    label_selector: str | None = None
    reason: str = ""
    error: str | None = None


class ExpectedDenial(Struct, frozen=True):
    """One expected denial. None fields are not compared."""

    policy: str | None = None
    binding: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None


class Expectation(Struct, frozen=True, kw_only=True):
    """The expectation of a case. Fields that are None or unstated are not compared.

    `first` is the first denial, or the policy that mutates if nothing is denied. `denials` are all denials. `object` is
    the object after all mutations, and `patch` leads to it from the one before. Both are compared by their meaning.
    `matches` says whether a policy is evaluated at all. With `bare_texts`, warnings and audit annotations are given
    without the server's additions, and there may be more annotations.
    """

    verdict: Verdict | None = None
    first: ExpectedDenial = ExpectedDenial()
    denials: tuple[ExpectedDenial, ...] | None = None
    warnings: tuple[str, ...] | None = None
    audit_annotations: Mapping[str, str] | None = None
    patch: tuple[JSON, ...] | None = None
    object: JSON | _Unstated = UNSTATED
    undetermined: tuple[str, ...] | None = None
    matches: bool | None = None
    bare_texts: bool = False


class CaseRequest(Struct, frozen=True, kw_only=True):
    """The request of a case, as a client would send it.

    `resource` None is that of the object's kind. `validated_object` is the object of the validating phase, if the case
    states it. `missing` are its unknown paths. `namespace_object` None stands for a namespace that only has the label
    of its name.
    """

    operation: Operation
    resource: GroupVersionResource | None = None
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user_info: UserInfo = NO_USER
    dry_run: bool = False
    options: JSON | _Unstated = UNSTATED
    object: JSON = None
    old_object: JSON = None
    validated_object: JSON | _Unstated = UNSTATED
    namespace_object: JSON = None
    missing: tuple[Missing, ...] = ()


class Case(Struct, frozen=True, kw_only=True):
    """A request, its world, the policies that decide, and the expectation.

    `objects` are the objects of the cluster: parameters, custom resource definitions, RBAC. `answers` are those of the
    authorizer, which allows nothing else. They are None if the case does not state any.
    """

    name: str
    path: str
    line: int
    request: CaseRequest
    manifests: ManifestSet
    expected: Expectation
    objects: tuple[JSON, ...] = ()
    answers: tuple[AuthorizerReply, ...] | None = None
    refusals: tuple[str, ...] = ()
    """Reasons for which a server would refuse the policies. They are of tools that do not ask a server."""
    strict: bool = True
    """Whether a field that the kind does not have is an error, as for `kubectl`."""

    @property
    def place(self) -> str:
        """Place as `path:line`."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def error(self, message: str) -> CaseError:
        """Return an error of this case."""
        return CaseError(message, path=self.path, line=self.line)


class EngineCase(Struct, frozen=True):
    """A case that a policy engine decides by itself. `differences` returns the differences from the expectation.

    `differences` raises CannotRunError for a decision that is not supported, and CaseError for an invalid case.
    """

    name: str
    path: str
    line: int
    differences: Callable[[], list[str]]


class Unusable(Struct, frozen=True):
    """A case that cannot be read. The others of its file are run."""

    name: str
    error: CaseError


class CaseFile(Struct, frozen=True):
    """A file or directory of cases. `form` names its form, `files` are all files that were read for it."""

    path: str
    form: str
    cases: tuple[Case | EngineCase | Unusable, ...]
    files: tuple[str, ...] = field(default=())
