"""CEL environment of Kyverno's policies (`pkg/cel/compiler/env.go`, `pkg/cel/policies/{vpol,mpol}/compiler`).

It is the environment of the API server that Kyverno 1.19 is built with, plus more of cel-go and Kyverno's own
libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from replay.cel.ast import operator
from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Expr
from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.declare.macros import Macro, receiver
from replay.cel.env import Env
from replay.cel.value.types import DYN, Type, struct_type
from replay.cel.value.values import OptionalValue, Value
from replay.cellib.declared_type import NAMESPACE_TYPE, REQUEST_TYPE, STRUCT_FIELDS
from replay.cellib.environment import SCALAR_FIELDS, SCALAR_NAMES, VARIABLES, base_env
from replay.cellib.library.encoders import ENCODERS, JSON_ENCODER
from replay.cellib.library.macros import BINDINGS, PROTOS
from replay.cellib.library.math import MATH
from replay.cellib.library.mutation import MUTATION
from replay.cellib.library.regex import REGEX_EXTENSION
from replay.cellib.version import KubernetesVersion
from replay.kyverno.cel.library.context import context_library
from replay.kyverno.cel.library.data import DATA
from replay.kyverno.cel.library.generator import generator_library
from replay.kyverno.cel.library.image import IMAGE
from replay.kyverno.cel.library.moment import MOMENT
from replay.kyverno.cel.library.native import NATIVE

VERSION: Final = KubernetesVersion(1, 36)
"""Version of the libraries that Kyverno is built with (`k8s.io/apiserver` 0.36)."""

_CODE: Final = KubernetesVersion(1, 37)
"""API server version with Kyverno's cel-go, which is newer than the cel-go of Kyverno's `k8s.io/apiserver`."""

_VARIABLES_TYPE: Final = struct_type("kyverno.variables")


def _or_value(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    return factory.call(operator.OR_VALUE_EAGERLY, receiver(target), args[0])


def _value_or(value: Value, other: Value) -> Value:
    """Return the value of an optional, the alternative for an empty one, or any other value unchanged."""
    if isinstance(value, OptionalValue):
        return value.value if value.has_value else other
    return value


_OR_VALUE = Library(
    name="kyverno.orvalue",
    functions=(
        Function(
            operator.OR_VALUE_EAGERLY,
            (Overload("__orValueCompat___dyn_dyn", (DYN, DYN), DYN, implementation=_value_or),),
        ),
    ),
    macros=(Macro("orValue", (1,), _or_value),),
)
"""`orValue` for values of any type, with a dynamic result (`OrValueCompatEnvOptions`)."""


class Purpose(Enum):
    """Purpose of a policy, which determines its environment."""

    VALIDATE = "validate"
    MUTATE = "mutate"
    GENERATE = "generate"


def kyverno_env(namespace: str, variables: Mapping[str, Type], purpose: Purpose) -> Env:
    """Return the environment of a policy.

    `namespace` is empty for cluster-wide policies. `variables` maps the declared variables to their types.
    """
    return _env(namespace, tuple(variables.items()), purpose)


@lru_cache(maxsize=1024)
def _env(namespace: str, variables: tuple[tuple[str, Type], ...], purpose: Purpose) -> Env:
    more = [
        BINDINGS,
        ENCODERS,
        JSON_ENCODER,
        PROTOS,
        MATH,
        REGEX_EXTENSION,
        _OR_VALUE,
        NATIVE,
        IMAGE,
        DATA,
        MOMENT,
        context_library(namespace),
    ]
    if purpose is Purpose.GENERATE:
        # Lists and maps of objects to be made are of any types.
        more.append(generator_library(namespace))
        return base_env(_CODE, VERSION, _declarations(variables), *more, validates=False)
    return base_env(_CODE, VERSION, _declarations(variables), *more, *([MUTATION] if purpose is Purpose.MUTATE else []))


def _declarations(variables: tuple[tuple[str, Type], ...]) -> Library:
    """Return the declarations for policies. Unlike on the API server, `request` also has the objects."""
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": NAMESPACE_TYPE, "request": REQUEST_TYPE}
    request = {**STRUCT_FIELDS[REQUEST_TYPE.name], "object": DYN, "oldObject": DYN}
    return Library(
        name="kyverno.admission",
        variables=(
            *(VariableDecl(name, type_) for name, type_ in declared.items()),
            VariableDecl(VARIABLES, _VARIABLES_TYPE, is_lazy=True),
        ),
        struct_fields={
            **SCALAR_FIELDS,
            **STRUCT_FIELDS,
            REQUEST_TYPE.name: request,
            _VARIABLES_TYPE.name: dict(variables),
        },
        aliases=SCALAR_NAMES,
    )
