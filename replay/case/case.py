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
    """A case, or a file of cases, cannot be used."""


class CannotRunError(CaseError):
    """A case is right as it is written, and asks for something that is not decided here."""


class _Unstated(Enum):
    """The type of `UNSTATED`."""

    UNSTATED = "unstated"


NO_USER: Final = UserInfo()
UNSTATED: Final = _Unstated.UNSTATED
"""Value of a field that a case does not state, where null has a meaning."""


class AuthorizerReply(Struct, frozen=True):
    """Answer of a case's authorizer; a None field matches any question.

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
    """One expected denial; None fields are not compared."""

    policy: str | None = None
    binding: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None


class Expectation(Struct, frozen=True, kw_only=True):
    """What is expected; what is None (or unstated) is not looked at.

    `first` is what is said of the first denial, or of the policy that mutates where nothing is denied; `denials` are all
    of them. `object` is the object after all mutations, `patch` makes it of the one before: both are compared by what they
    mean. `matches` says whether a policy is asked at all. With `bare_texts` warnings and audit annotations are given
    without what the server writes around them, and there may be more of the latter.
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

    `resource` None is that of the object's kind. `validated_object` is the object as the validating phase was told it, where
    the case states that; `missing` are the paths of it that are not known. `namespace_object` None stands for a namespace
    with no labels but its own name.
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
    """A request, the world that it meets, the policies that decide, and what is expected.

    `objects` are the objects of the cluster: parameters, custom resource definitions, RBAC. `answers` are those of the
    authorizer, which allows nothing else; None where the case does not say.
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
    """Why a server would not take the policies, of tools that do not ask one."""
    strict: bool = True
    """Whether a field that the kind does not have is an error, as it is for `kubectl`."""

    @property
    def place(self) -> str:
        """`path:line`."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def error(self, message: str) -> CaseError:
        """An error of this case."""
        return CaseError(message, path=self.path, line=self.line)


class EngineCase(Struct, frozen=True):
    """A case that a policy engine decides by itself; `differences` says how its answer differs from what is expected.

    `differences` raises CannotRunError where it asks for what is not decided, and CaseError where the case is at fault.
    """

    name: str
    path: str
    line: int
    differences: Callable[[], list[str]]


class Unusable(Struct, frozen=True):
    """A case that cannot be read; the others of its file are run all the same."""

    name: str
    error: CaseError


class CaseFile(Struct, frozen=True):
    """A file or directory of cases: `form` names how it is written, `files` are all that were read for it."""

    path: str
    form: str
    cases: tuple[Case | EngineCase | Unusable, ...]
    files: tuple[str, ...] = field(default=())
