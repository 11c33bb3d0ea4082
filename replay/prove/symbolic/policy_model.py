"""Formulas of a policy with its bindings: when a request has which outcome (`replay.admission.validating`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replay.cellib.expression import CompiledExpression
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    MatchResources,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Operation
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionResource
from replay.matching.matcher import Criteria, Match, Matcher
from replay.prove.claim import EnforcementLevel
from replay.prove.normal import canonical
from replay.prove.request import Target
from replay.prove.search.target import NAMESPACE, attributes_of, slot_of
from replay.prove.symbolic.node import JsonNode
from replay.prove.symbolic.request_model import NAMESPACES, ParamKey, RequestModel
from replay.prove.symbolic.selection import spread
from replay.prove.symbolic.term import FALSE, TRUE, Term, boolean, conj, disj, negated
from replay.prove.symbolic.translate import Environment, Translator
from replay.prove.symbolic.value import FAILED, Null, Str, SymbolicValue, truth
from replay.prove.unit import BoundPolicy, CompiledUnit

_ACTIONS = {"Deny": EnforcementLevel.DENIED, "Warn": EnforcementLevel.WARNED, "Audit": EnforcementLevel.AUDITED}


class UnmodelledError(Exception):
    """Part of a policy that formulas do not cover. `str()` names it."""


class OrderError(UnmodelledError):
    """Result that depends on the order of a map's keys."""


def resources_seen_as(
    matcher: Matcher, sections: Iterable[MatchResources], target: Target
) -> set[GroupVersionResource]:
    """Return the resources as which match constraints see a target: itself, or other versions of it."""
    request_class, resources = matcher.request_class(attributes_of(target)), set()
    for section in sections:
        criteria = matcher.criteria(section)
        for name in ("", *names_of(section)):
            result = criteria.match_rules(request_class, name)
            if isinstance(result, Match):
                resources.add(result.resource)
    return resources


def names_of(section: MatchResources) -> list[str]:
    """Return the resource names that rules name."""
    rules = (*section.resource_rules, *section.exclude_resource_rules)
    return sorted({name for rule in rules for name in rule.resource_names})


def _is_match(result: object, target: Target) -> bool:
    if result is not None and not isinstance(result, Match):
        raise UnmodelledError(f"whether {target} is matched is an error")
    return result is not None


class PolicyModel:
    """Formulas of one policy over a request."""

    def __init__(
        self, unit: BoundPolicy, compiled: CompiledUnit, request: RequestModel, matcher: Matcher, discovery: Discovery
    ) -> None:
        """`matcher` compiles the match sections. `discovery` knows the kinds of parameters."""
        self._discovery = discovery
        self._outcomes: dict[ParamKey | None, tuple[Term, Term]] = {}
        self._unit = unit
        self._compiled = compiled
        self._request = request
        self._matcher = matcher
        self._fails = unit.policy.failure_policy is FailurePolicy.FAIL

    def at_least(self, level: EnforcementLevel) -> Term:
        """Return when a request has at least this level."""
        policy = self._unit.policy
        # The API accepts no such policy. At evaluation it is a configuration error.
        if policy.match_constraints is None:
            return boolean(self._fails)
        return conj(self._matches(policy.match_constraints), self._any_binding(level))

    def _any_binding(self, level: EnforcementLevel) -> Term:
        """Return when a binding gives at least this level, given the policy's decision for its parameter."""
        guards = []
        for binding in self._unit.bindings:
            key, there = self._param(binding), TRUE
            if key is not None:
                there, _ = self._request.param(key)
            if binding.param_ref is not None and binding.param_ref.parameter_not_found_action == "Deny" and self._fails:
                # A missing parameter is a configuration error. It denies whatever the actions are.
                guards.append(conj(negated(there), self._binds(binding)))
            most = max((_ACTIONS[action] for action in binding.validation_actions), default=EnforcementLevel.ADMITTED)
            denied, broken = self.outcome(key)
            # A failed audit annotation denies whatever the binding's actions are.
            guards.append(conj(there, self._binds(binding), disj(denied, broken) if most >= level else broken))
        return disj(*guards)

    def _param(self, binding: ValidatingAdmissionPolicyBinding) -> ParamKey | None:
        """Return the parameter that a binding looks up, or None. A binding without a reference evaluates with null."""
        kind, ref = self._unit.policy.param_kind, binding.param_ref
        if kind is None or ref is None:
            return None
        reference = (canonical(kind), ref.name, ref.namespace, canonical(ref.selector))
        return slot_of(kind, ref, self._discovery, NAMESPACE), reference

    def outcome(self, param: ParamKey | None) -> tuple[Term, Term]:
        """Return when the policy denies, and when an audit annotation makes it deny for all bindings."""
        if param not in self._outcomes:
            self._outcomes[param] = self._outcome(param)
        return self._outcomes[param]

    def _outcome(self, param: ParamKey | None) -> tuple[Term, Term]:
        applies, condition_failed = self._conditions(param)
        validations = [truth(value) for value in self._values(self._compiled.validations, param)]
        fails = disj(*(each_fails for _, each_fails in validations))
        errors = disj(*(conj(negated(holds), negated(each_fails)) for holds, each_fails in validations))
        # With Ignore an error in one validation admits that one, and the others still count.
        denied = conj(applies, disj(fails, errors) if self._fails else fails)
        if self._fails:
            denied = disj(denied, condition_failed)
        return denied, conj(applies, self._annotations_fail(param)) if self._fails else FALSE

    def _conditions(self, param: ParamKey | None) -> tuple[Term, Term]:
        """Return when all match conditions are true, and when one is an error and none is false."""
        pairs = [truth(value) for value in self._values(self._compiled.match_conditions, param, matching=True)]
        any_false = disj(*(fails for _, fails in pairs))
        all_true = conj(*(holds for holds, _ in pairs))
        return all_true, conj(negated(any_false), negated(all_true))

    def _values(
        self, expressions: Sequence[CompiledExpression], param: ParamKey | None, *, matching: bool = False
    ) -> list[SymbolicValue]:
        """Return the values of expressions of one kind. An expression that does not compile is an error."""
        bindings = self._request.bindings(matching=matching, param=param)
        values_by_name: dict[str, SymbolicValue | None] = {}

        def variable(name: str) -> SymbolicValue | None:
            if name not in values_by_name:
                compiled = self._compiled.compiler.variables.get(name)
                if compiled is None:
                    values_by_name[name] = None
                elif compiled.program is None:
                    values_by_name[name] = FAILED
                else:
                    values_by_name[name] = FAILED  # one that reads itself fails
                    values_by_name[name] = translator.translate(compiled.program.ast)
            return values_by_name[name]

        translator = Translator(self._request.root, Environment(bindings, variable))
        return [FAILED if each.program is None else translator.translate(each.program.ast) for each in expressions]

    def _annotations_fail(self, param: ParamKey | None) -> Term:
        failed = []
        for value in self._values(self._compiled.audit_annotations, param):
            fine = [guard for guard, case in spread(value) if isinstance(case, Str | Null)]
            failed.append(negated(disj(*fine)))
        return disj(*failed)

    def _binds(self, binding: ValidatingAdmissionPolicyBinding) -> Term:
        return TRUE if binding.match_resources is None else self._matches(binding.match_resources)

    def _matches(self, section: MatchResources) -> Term:
        criteria = self._matcher.criteria(section)
        by_rules = disj(
            *(
                conj(self._request.is_target(index), self._matches_by_rules(criteria, section, each.target))
                for index, each in enumerate(self._request.targets)
            )
        )
        return conj(
            by_rules, self._selects_namespace(section.namespace_selector), self._selects_object(section.object_selector)
        )

    def _matches_by_rules(self, criteria: Criteria, section: MatchResources, target: Target) -> Term:
        request_class = self._matcher.request_class(attributes_of(target))
        guards, rest = [], TRUE
        for name in names_of(section):
            here = self._request.is_text(name, "name")
            rest = conj(rest, negated(here))
            guards.append(conj(here, boolean(_is_match(criteria.match_rules(request_class, name), target))))
        guards.append(conj(rest, boolean(_is_match(criteria.match_rules(request_class, ""), target))))
        return disj(*guards)

    def _selects_namespace(self, selector: LabelSelector) -> Term:
        if selector == LabelSelector():
            return TRUE
        request = self._request
        ways = []
        for index, model in enumerate(request.targets):
            target = model.target
            is_here = request.is_target(index)
            if target.resource.group_resource == NAMESPACES and not model.is_open:
                is_new = not target.subresource and target.operation in {Operation.CREATE, Operation.UPDATE}
                if target.subresource:
                    raise UnmodelledError("a namespace selector on a subresource of namespaces")
                ways.append(conj(is_here, self._selects(selector, request.object if is_new else request.old_object)))
            # An open target may be cluster-scoped, and then no namespace selector excludes it.
            elif model.is_open:
                there = request.request.part("namespace")[0]
                ways.append(conj(is_here, disj(negated(there), self._selects(selector, request.namespace))))
            else:
                chosen = self._selects(selector, request.namespace) if target.namespaced else TRUE
                ways.append(conj(is_here, chosen))
        return disj(*ways)

    def _selects_object(self, selector: LabelSelector) -> Term:
        if selector == LabelSelector():
            return TRUE
        request = self._request
        is_connect = request.is_text(str(Operation.CONNECT), "operation")
        sides = ((request.has_object, request.object), (request.has_old_object, request.old_object))
        either_side = disj(*(conj(there, self._selects(selector, node)) for there, node in sides))
        # The options of a connection have no metadata, so that `matchObject` finds no labels in them.
        return conj(negated(is_connect), either_side)

    def _selects(self, selector: LabelSelector, node: JsonNode) -> Term:
        terms = [self._is_label(node, key, (value,)) for key, value in selector.match_labels.items()]
        for each in selector.match_expressions:
            there, _ = self._request.label(node, each.key)
            match each.operator:
                case "In":
                    terms.append(self._is_label(node, each.key, each.values))
                case "NotIn":
                    terms.append(negated(self._is_label(node, each.key, each.values)))
                case "Exists":
                    terms.append(there)
                case "DoesNotExist":
                    terms.append(negated(there))
                case _:
                    raise UnmodelledError(f"the selector operator {each.operator}")
        return conj(*terms)

    def _is_label(self, node: JsonNode, key: str, values: Sequence[str]) -> Term:
        texts = self._request.root.texts
        there, text = self._request.label(node, key)
        return conj(there, disj(*(texts.same(text, texts.literal(value)) for value in values)))


def require_covered(units: Sequence[BoundPolicy]) -> None:
    """Raise UnmodelledError for a part that formulas do not cover."""
    if len({unit.policy.static for unit in units}) > 1:
        raise UnmodelledError("one side is a static manifest and the other an object of the API")
