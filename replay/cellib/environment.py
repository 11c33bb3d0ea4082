"""The CEL environments of admission: which library since which Kubernetes minor, and what each kind of expression sees.

The table is that of apiserver `pkg/cel/environment/base.go`. A server of a minor evaluates stored expressions with
everything that it knows, which is what `admission_env` of that minor gives; for new expressions it takes the
environment of the minor before, `version.previous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from replay.cel.check import validators
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.value.types import DURATION, DYN, TIMESTAMP, Type
from replay.cellib.admission_types import NAMESPACE_TYPE, REQUEST_TYPE, STRUCT_FIELDS, VARIABLES_TYPE
from replay.cellib.library.authorizer import AUTHORIZER_TYPE, AUTHZ, AUTHZ_SELECTORS, RESOURCE_CHECK_TYPE
from replay.cellib.library.cidr import CIDR
from replay.cellib.library.comprehensions import TWO_VARIABLE_COMPREHENSIONS
from replay.cellib.library.ip import IP
from replay.cellib.library.list_extensions import LIST_EXTENSIONS
from replay.cellib.library.lists import LISTS, LISTS_1
from replay.cellib.library.mutation import MUTATION
from replay.cellib.library.named_format import FORMAT
from replay.cellib.library.optionals import OPTIONALS
from replay.cellib.library.quantity import QUANTITY
from replay.cellib.library.regex import REGEX
from replay.cellib.library.semver import SEMVER
from replay.cellib.library.sets import SETS
from replay.cellib.library.strings import STRINGS
from replay.cellib.library.url import URL
from replay.cellib.version import NEWEST_MINOR, KubernetesVersion


class ExpressionKind(StrEnum):
    """Where an expression stands in a policy; named as in the cases of the CEL corpus."""

    VALIDATION = "validation"
    MATCH_CONDITION = "matchCondition"
    MESSAGE_EXPRESSION = "messageExpression"
    AUDIT_ANNOTATION = "auditAnnotation"
    VARIABLE = "variable"
    APPLY_CONFIGURATION = "applyConfiguration"
    JSON_PATCH = "jsonPatch"
    MUTATION_EXPRESSION = "mutationExpression"

    @property
    def is_mutation(self) -> bool:
        """Whether it can build `Object{...}` and `JSONPatch{...}`."""
        return self in _MUTATION_KINDS


_MUTATION_KINDS = frozenset(
    {ExpressionKind.APPLY_CONFIGURATION, ExpressionKind.JSON_PATCH, ExpressionKind.MUTATION_EXPRESSION}
)


class VersionedLibrary(NamedTuple):
    """A library and the minors that have it: from `since`, until before `until`."""

    library: Library
    since: int
    until: int = NEWEST_MINOR + 1


BASE_LIBRARIES: tuple[VersionedLibrary, ...] = (
    VersionedLibrary(URL, 23),
    VersionedLibrary(REGEX, 23),
    VersionedLibrary(LISTS, 23, 37),
    VersionedLibrary(AUTHZ, 27),
    VersionedLibrary(OPTIONALS, 28),
    VersionedLibrary(QUANTITY, 28),
    VersionedLibrary(STRINGS, 29),
    VersionedLibrary(SETS, 29),
    VersionedLibrary(IP, 30),
    VersionedLibrary(CIDR, 30),
    VersionedLibrary(FORMAT, 31),
    VersionedLibrary(AUTHZ_SELECTORS, 31),
    VersionedLibrary(TWO_VARIABLE_COMPREHENSIONS, 32),
    VersionedLibrary(SEMVER, 33),
    VersionedLibrary(LIST_EXTENSIONS, 34),
    VersionedLibrary(LISTS_1, 37),
)
"""Every library in the order in which the server enables them."""


_VALIDATORS = (
    validators.duration_literals,
    validators.timestamp_literals,
    validators.regex_literals,
    validators.homogeneous_literals,
    validators.string_format,
)
"""What the server refuses beyond types, since 1.29."""


def admission_env(
    version: KubernetesVersion, kind: ExpressionKind, *, has_params: bool, variables: Mapping[str, Type] | None
) -> Env:
    """The environment of one kind of expression; equal calls share one.

    `variables` are the types of `variables.<name>`; None declares no `variables` at all (the REST API validates match
    conditions, and policies without variables, without composition).
    """
    authorizer = kind is not ExpressionKind.MESSAGE_EXPRESSION
    types = None if variables is None else tuple(variables.items())
    return _env(version, authorizer, kind.is_mutation, has_params, types)


@lru_cache(maxsize=1024)
def _env(
    version: KubernetesVersion,
    has_authorizer: bool,
    has_patch_types: bool,
    has_params: bool,
    variables: tuple[tuple[str, Type], ...] | None,
) -> Env:
    libraries = [row.library for row in BASE_LIBRARIES if row.since <= version.minor < row.until]
    libraries.append(_declarations(has_authorizer, has_params, variables))
    if has_patch_types:
        libraries.append(MUTATION)
    return Env(libraries, validators=_VALIDATORS)


class _AnyField(dict[str, Type]):
    """The fields of what has them all."""

    def get(self, key: str, default: object = None, /) -> Type:  # noqa: ARG002
        """Any field is dynamic."""
        return DYN


_SCALARS: Mapping[str, Mapping[str, Type]] = {
    **{name: {} for name in ("bool", "bytes", "double", "int", "string", "uint")},
    "map": _AnyField(),
}
_SCALAR_NAMES = {"duration": DURATION, "timestamp": TIMESTAMP}
"""The server's type provider finds its own scalars where it looks for messages, and then no field in them.

That makes two names of types out of the names that it has for timestamps and durations (apiserver `pkg/cel/types.go`, `findScalar`).
"""


def _declarations(
    has_authorizer: bool,
    has_params: bool,
    variables: tuple[tuple[str, Type], ...] | None,
) -> Library:
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE_TYPE, "request": REQUEST_TYPE}
    if has_params:
        declared["params"] = DYN
    if has_authorizer:
        declared["authorizer"] = AUTHORIZER_TYPE
        declared["authorizer.requestResource"] = RESOURCE_CHECK_TYPE
    if variables is not None:
        declared["variables"] = VARIABLES_TYPE
    return Library(
        name="kubernetes.admission",
        variables=tuple(VariableDecl(name, type_) for name, type_ in declared.items()),
        struct_fields={**_SCALARS, **STRUCT_FIELDS, VARIABLES_TYPE.name: dict(variables or ())},
        aliases=_SCALAR_NAMES,
    )
