"""Comparison with cel-python on the same expressions and requests, as far as it supports them.

cel-python has none of Kubernetes' libraries and deviates from the specification in places. Both are recognised and
named. Any other difference is an error of one of the two engines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import celpy
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError, CELUnsupportedError

from replay.admission.request import admission_request, namespace_object
from replay.admission.validating.evaluation import RUNTIME_BUDGET
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.compare.in_force import EngineAgreement, EngineDisagreement
from replay.json import JSON
from replay.kube.admissionregistration import ValidatingAdmissionPolicy
from replay.kube.attributes import Attributes
from replay.kube.lister import Lister
from replay.matching.matcher import Match, Matcher
from replay.matching.rules import EquivalentResourceMapper

MAX_EXAMPLES = 20
ERROR = "error"
_LIBRARIES = (
    ("authorizer", re.compile(r"\bauthorizer\b")),
    ("quantity", re.compile(r"\b(isQ|q)uantity\(")),
    ("IP and CIDR", re.compile(r"\b(ip|cidr|isIP|isCIDR)\(")),
    ("URL", re.compile(r"\b(url|isURL)\(")),
    ("semver", re.compile(r"\b(semver|isSemver)\(")),
    ("format", re.compile(r"\bformat\.|\.format\(")),
    ("regex", re.compile(r"\.(find|findAll)\(")),
    ("sets", re.compile(r"\bsets\.")),
    ("lists", re.compile(r"\.(isSorted|sum|min|max|indexOf|lastIndexOf|distinct|flatten|slice|sort|sortBy|reverse)\(")),
    (
        "extended strings",
        re.compile(r"\.(charAt|join|lowerAscii|upperAscii|replace|split|substring|trim)\(|\bstrings\."),
    ),
    ("optional values", re.compile(r"\[\?|\.\?|\boptional\.|\.orValue\(|\.or\(|\.hasValue\(")),
    (
        "two-variable comprehensions",
        re.compile(r"\.(all|exists|existsOne|transformMap|transformList)\(\s*\w+\s*,\s*\w+\s*,"),
    ),
    ("cel.bind", re.compile(r"\bcel\.bind\(")),
)
"""Libraries that cel-python lacks, with the patterns of their use."""
_ABSORBING = re.compile(r"&&|\|\||\?|\.(all|exists|exists_one)\(")
_NUMBERS = re.compile(r"[<>]=?|==|!=|\+|-|\*|/|%| in ")


class SecondOpinion:
    """The validations of some policies in both engines.

    Policies with parameters are left out, because their results differ by binding.
    """

    def __init__(
        self,
        policies: Iterable[ValidatingAdmissionPolicy],
        version: KubernetesVersion,
        mapper: EquivalentResourceMapper,
    ) -> None:
        """Compile the validations for both engines."""
        # celpy logs each evaluation error, and errors are answers here.
        logging.getLogger("celpy").setLevel(logging.CRITICAL)
        self._matcher = Matcher(mapper)
        self._policies = [_Policy(each, version) for each in policies if each.match_constraints and not each.param_kind]

    def ask(self, audit_id: str, attributes: Attributes, lister: Lister) -> EngineAgreement:
        """Compare both engines on one request. Requests with unknown parts are skipped."""
        opinions = EngineAgreement()
        bindings: dict[str, Any] = {
            "object": attributes.object,
            "oldObject": attributes.old_object,
            "request": admission_request(attributes, attributes.resource, attributes.kind),
            "namespaceObject": namespace_object(attributes),
        }
        if not all(value is None or isinstance(value, dict) for value in bindings.values()):
            return opinions
        request = self._matcher.request(attributes, lister)
        converted: Mapping[str, Any] | None = None
        for each in self._policies:
            assert each.policy.match_constraints is not None
            match = request.match(self._matcher.criteria(each.policy.match_constraints))
            # The bindings are in the version that was sent, so that policies that match another version are left out.
            if isinstance(match, Match) and match.unknown is None and match.resource == attributes.resource:
                converted = converted or {name: json_to_cel(value) for name, value in bindings.items()}
                each.compare(audit_id, bindings, converted, opinions)
        return opinions


class _Policy:
    """The validations of one policy in both engines."""

    def __init__(self, policy: ValidatingAdmissionPolicy, version: KubernetesVersion) -> None:
        self.policy = policy
        self._compiler = ExpressionCompiler(version, has_params=False)
        for variable in policy.variables:
            self._compiler.declare_variable(variable.name, variable.expression)
        self._ours = [self._compiler.compile(ExpressionKind.VALIDATION, each.expression) for each in policy.validations]
        self._variables = [
            (each.name, each.expression, _cel_python_program(each.expression)) for each in policy.variables
        ]
        self._cel_python_programs = [_cel_python_program(each.expression) for each in policy.validations]

    def compare(
        self, audit_id: str, bindings: Mapping[str, JSON], converted: Mapping[str, Any], opinions: EngineAgreement
    ) -> None:
        """Evaluate all validations in both engines."""
        evaluation = Evaluation(self._compiler, bindings, RUNTIME_BUDGET)
        activation = {**converted, "variables": self._evaluate_variables(converted)}
        for ours, theirs in zip(self._ours, self._cel_python_programs, strict=True):
            if ours.program is None:
                continue
            own = evaluation.evaluate(ours)
            mine = ERROR if own.error is not None else str(own.value).lower()
            other = _evaluate(theirs, activation)
            self._note(audit_id, ours, (mine, other), opinions)

    def _note(
        self, audit_id: str, ours: CompiledExpression, values: tuple[str, str], opinions: EngineAgreement
    ) -> None:
        mine, other = values
        if mine == other:
            opinions.agreed += 1
            return
        texts = [
            ours.expression,
            *(text for name, text, _ in self._variables if f"variables.{name}" in ours.expression),
        ]
        lacking = next((name for name, pattern in _LIBRARIES for text in texts if pattern.search(text)), "")
        if other == ERROR and lacking:
            opinions.unsupported[lacking] += 1
        elif (habit := _habit(" ".join(texts), mine, other)) and other == ERROR:
            opinions.habits[habit] += 1
        else:
            opinions.differing.append(EngineDisagreement(audit_id, self.policy.name, ours.expression, mine, other))

    def _evaluate_variables(self, converted: Mapping[str, Any]) -> Any:
        """Return the values of the variables, in their order. A variable that fails is left out."""
        values: dict[str, Any] = {}
        for name, _, program in self._variables:
            if program is None:
                continue
            try:
                values[name] = program.evaluate({**converted, "variables": celpy.celtypes.MapType(_keyed(values))})
            except Exception:  # noqa: BLE001, S112 - whatever another engine raises, it has no answer
                continue
        return celpy.celtypes.MapType(_keyed(values))


def _keyed(values: Mapping[str, Any]) -> dict[Any, Any]:
    return {celpy.celtypes.StringType(name): value for name, value in values.items()}


def _cel_python_program(expression: str) -> Any:
    """Return the program of cel-python, or None if it cannot compile the expression."""
    environment = celpy.Environment()
    try:
        return environment.program(environment.compile(expression))
    except (CELParseError, CELUnsupportedError, CELEvalError, ValueError, TypeError, KeyError):
        return None


def _evaluate(program: Any, activation: Mapping[str, Any]) -> str:
    if program is None:
        return ERROR
    try:
        return str(bool(program.evaluate(activation))).lower()
    except Exception:  # noqa: BLE001 - whatever another engine raises is its answer: an error
        return ERROR


def _habit(expression: str, mine: str, other: str) -> str:
    """Return the known deviation of cel-python that fits, or ""."""
    if mine != ERROR and other == ERROR and _ABSORBING.search(expression):
        return "raises an error that the other side of a logical operator absorbs"
    if mine != ERROR and other == ERROR and _NUMBERS.search(expression):
        return "does not compare or compute with values of dynamic type as Kubernetes does"
    return ""
