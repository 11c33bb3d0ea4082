"""The CEL environments of admission: the libraries of each server version, and the names for each kind of expression.

The table is that of apiserver `pkg/cel/environment/base.go`. A server evaluates stored expressions with all its
libraries, which is the `admission_env` of its version. For new expressions it uses the environment of the version
before, `version.previous`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from replay.cel.check import validators
from replay.cel.check.validators import AstValidator
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.release import Release
from replay.cel.value.types import DURATION, DYN, TIMESTAMP, Type
from replay.cellib.declared_type import NAMESPACE_TYPE, REQUEST_TYPE, STRUCT_FIELDS, VARIABLES_TYPE
from replay.cellib.library.authorizer import AUTHORIZER_TYPE, AUTHZ, RESOURCE_CHECK_TYPE, authz_selectors
from replay.cellib.library.cidr import networks
from replay.cellib.library.ip import IP
from replay.cellib.library.list_extensions import list_extensions
from replay.cellib.library.lists import LISTS, LISTS_1, SETS
from replay.cellib.library.macros import TWO_VARIABLE_COMPREHENSIONS
from replay.cellib.library.mutation import MUTATION
from replay.cellib.library.named_format import named_formats
from replay.cellib.library.optionals import optionals
from replay.cellib.library.quantity import QUANTITY
from replay.cellib.library.regex import REGEX
from replay.cellib.library.semver import SEMVER
from replay.cellib.library.strings import strings
from replay.cellib.library.url import urls
from replay.cellib.version import NEWEST_MINOR, KubernetesVersion

PER_CALL_LIMIT = 1_000_000
"""Cost at which the API server cancels one expression (`apis/cel.PerCallLimit`)."""

VARIABLES = "variables"
"""Name of the map of a policy's variables."""


class ExpressionKind(StrEnum):
    """Place of an expression in a policy, named as in the cases of the CEL corpus."""

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
        """Whether the expression can build `Object{...}` and `JSONPatch{...}`."""
        return self in _MUTATION_KINDS


_MUTATION_KINDS = frozenset(
    {ExpressionKind.APPLY_CONFIGURATION, ExpressionKind.JSON_PATCH, ExpressionKind.MUTATION_EXPRESSION}
)


class VersionedLibrary(NamedTuple):
    """A library and the minor versions that have it: from `since`, until before `until`.

    These are the versions with which expressions must be compatible. If the code of servers differs in other ways, the
    library is a function of the server.
    """

    library: Library | Callable[[KubernetesVersion], Library]
    since: int
    until: int = NEWEST_MINOR + 1

    def library_for(self, server: KubernetesVersion) -> Library:
        """Return the library of a server."""
        return self.library if isinstance(self.library, Library) else self.library(server)


BASE_LIBRARIES: tuple[VersionedLibrary, ...] = (
    VersionedLibrary(urls, 23),
    VersionedLibrary(REGEX, 23),
    VersionedLibrary(LISTS, 23, 37),
    VersionedLibrary(AUTHZ, 27),
    VersionedLibrary(optionals, 28),
    VersionedLibrary(QUANTITY, 28),
    VersionedLibrary(strings, 29),
    VersionedLibrary(SETS, 29),
    VersionedLibrary(IP, 30),
    VersionedLibrary(networks, 30),
    VersionedLibrary(named_formats, 31),
    VersionedLibrary(authz_selectors, 31),
    VersionedLibrary(TWO_VARIABLE_COMPREHENSIONS, 32),
    VersionedLibrary(SEMVER, 33),
    VersionedLibrary(list_extensions, 34),
    VersionedLibrary(LISTS_1, 37),
)
"""All libraries, in the order in which the server enables them."""

STRICT_COST_SINCE = 32
"""First minor version that charges calls of its libraries by their arguments (gates `StrictCostEnforcementFor...`).

Before, each call costs one.
"""

CONSTRUCTIBLE_SINCE = 32
"""First minor version in which a message can be made of the types of `request` and `namespaceObject`."""


_VALIDATORS = (
    validators.duration_literals,
    validators.timestamp_literals,
    validators.regex_literals,
    validators.homogeneous_literals,
)
"""Validators that the server runs in addition to type checks, since 1.29."""


def _validators(server: KubernetesVersion) -> tuple[AstValidator, ...]:
    """Return the validators of a server. The one of format strings came with the strings library of cel-go 0.20."""
    if server.cel_go < Release.V0_20:
        return _VALIDATORS
    of_format = validators.string_format if server.cel_go >= Release.V0_22 else validators.string_format_or_crash
    return (*_VALIDATORS, of_format)


def admission_env(  # noqa: PLR0913 - what an environment depends on
    version: KubernetesVersion,
    kind: ExpressionKind,
    *,
    has_params: bool,
    variables: Mapping[str, Type] | None,
    compatible: KubernetesVersion | None = None,
    has_authorizer: bool = True,
) -> Env:
    """Return the environment of one kind of expression on a server. Equal calls share one.

    `variables` are the types of `variables.<name>`. None declares no `variables` at all, because the REST API validates
    match conditions, and policies without variables, without composition. `compatible` is the version whose libraries
    are available. None means the server's own.
    """
    authorizer = has_authorizer and kind is not ExpressionKind.MESSAGE_EXPRESSION
    types = None if variables is None else tuple(variables.items())
    return _env(version, compatible or version, authorizer, kind.is_mutation, has_params, types)


@lru_cache(maxsize=1024)
def _env(  # noqa: PLR0913, PLR0917 - what an environment depends on
    server: KubernetesVersion,
    compatible: KubernetesVersion,
    has_authorizer: bool,
    has_patch_types: bool,
    has_params: bool,
    variables: tuple[tuple[str, Type], ...] | None,
) -> Env:
    declared = _declarations(has_authorizer, has_params, variables)
    return base_env(server, compatible, declared, *([MUTATION] if has_patch_types else []))


def base_env(
    server: KubernetesVersion,
    compatible: KubernetesVersion,
    declared: Library,
    *more: Library,
    validates: bool = True,
) -> Env:
    """Return the environment of a server with the given declarations. `compatible` is the version of the libraries.

    `validates` adds the checks beyond types, such as that of lists with several types.
    """
    libraries = [row.library_for(server) for row in BASE_LIBRARIES if row.since <= compatible.minor < row.until]
    if server.minor < STRICT_COST_SINCE:
        libraries = [library if library is SETS else _without_cost(library) for library in libraries]
    libraries.append(replace(declared, has_struct_types=server.minor >= CONSTRUCTIBLE_SINCE))
    of_server = _validators(server) if validates else ()
    return Env([*libraries, *more], validators=of_server, limit=PER_CALL_LIMIT, release=server.cel_go)


def _without_cost(library: Library) -> Library:
    """Return a library whose calls cost as much as calls that cel-go does not know. It knows its own library, sets."""
    functions = tuple(
        replace(function, overloads=tuple(replace(each, cost=None, cost_by_id=None) for each in function.overloads))
        for function in library.functions
    )
    return replace(library, functions=functions)


class _AnyField(dict[str, Type]):
    """The fields of a type that has every field."""

    def get(self, key: str, default: object = None, /) -> Type:  # noqa: ARG002
        """Return dyn for any field."""
        return DYN


SCALAR_FIELDS: Mapping[str, Mapping[str, Type]] = {
    **{name: {} for name in ("bool", "bytes", "double", "int", "string", "uint")},
    "map": _AnyField(),
}
SCALAR_NAMES = {"duration": DURATION, "timestamp": TIMESTAMP}
"""Names of types for timestamps and durations.

The server's type provider returns scalars if it looks for messages, and then finds no field in them. So these two names
become types (apiserver `pkg/cel/types.go`, `findScalar`).
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
        # One variable with a dot in its name, which CEL prefers to a field of `authorizer`.
        declared["authorizer.requestResource"] = RESOURCE_CHECK_TYPE
    if variables is not None:
        declared[VARIABLES] = VARIABLES_TYPE
    return _library(declared, variables)


@lru_cache(maxsize=32)
def type_checking_env(version: KubernetesVersion, *, has_params: bool) -> Env:
    """Return the environment in which the policy controller checks types.

    See `policy/validating/typechecking.go`, `buildEnvSet`. The caller declares the types of `object`, `oldObject`,
    `params` and `variables`. The variable `authorizer.requestResource` is absent.
    """
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE_TYPE, "request": REQUEST_TYPE}
    declared |= {"authorizer": AUTHORIZER_TYPE, VARIABLES: VARIABLES_TYPE}
    if has_params:
        declared["params"] = DYN
    return base_env(version, version, _library(declared, ()))


def _library(declared: Mapping[str, Type], variables: tuple[tuple[str, Type], ...] | None) -> Library:
    return Library(
        name="kubernetes.admission",
        variables=tuple(VariableDecl(name, type_, is_lazy=name == VARIABLES) for name, type_ in declared.items()),
        struct_fields={**SCALAR_FIELDS, **STRUCT_FIELDS, VARIABLES_TYPE.name: dict(variables or ())},
        aliases=SCALAR_NAMES,
    )
