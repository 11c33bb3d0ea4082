"""A policy with its bindings as formulas: when a request becomes what (`replay.admission.validating`)."""

from __future__ import annotations

from collections.abc import Sequence

from replay.cellib.composition import CompiledExpression
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    MatchResources,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Operation
from replay.matching.matcher import Criteria, Match, Matcher
from replay.prove.claim import Level
from replay.prove.request import Target
from replay.prove.search.target import attributes_of
from replay.prove.symbolic.node import Node
from replay.prove.symbolic.request_model import NAMESPACES, RequestModel
from replay.prove.symbolic.selection import spread
from replay.prove.symbolic.term import FALSE, TRUE, Term, boolean, conj, disj, negated
from replay.prove.symbolic.translate import Environment, Translator
from replay.prove.symbolic.value import FAILED, Str, Value, truth
from replay.prove.unit import CompiledUnit, Unit

_ACTIONS = {"Deny": Level.DENIED, "Warn": Level.WARNED, "Audit": Level.AUDITED}


class UnmodelledError(Exception):
    """Something of a policy is not said in formulas; `str()` says what."""


class PolicyModel:
    """What one policy does, as formulas over a request."""

    def __init__(self, unit: Unit, compiled: CompiledUnit, request: RequestModel, matcher: Matcher) -> None:
        """`matcher` compiles the match sections."""
        self._unit = unit
        self._compiled = compiled
        self._request = request
        self._matcher = matcher
        self._fails = unit.policy.failure_policy is FailurePolicy.FAIL

    def at_least(self, level: Level) -> Term:
        """When a request becomes at least so much."""
        policy = self._unit.policy
        if policy.match_constraints is None:
            return boolean(self._fails)
        matched = self._matches(policy.match_constraints)
        if policy.param_kind is None:
            return conj(matched, self._decided(level, [(each, TRUE) for each in self._unit.bindings]))
        return conj(matched, self._with_params(level))

    def _with_params(self, level: Level) -> Term:
        """One parameter object that is there or not; a binding without a reference evaluates with null."""
        found, refused = [], FALSE
        for binding in self._unit.bindings:
            if binding.param_ref is None:
                found.append((binding, negated(self._request.has_params)))
                continue
            found.append((binding, self._request.has_params))
            if binding.param_ref.parameter_not_found_action == "Deny" and self._fails:
                refused = disj(refused, conj(negated(self._request.has_params), self._binds(binding)))
        return disj(refused, self._decided(level, found))

    def _decided(self, level: Level, bindings: Sequence[tuple[ValidatingAdmissionPolicyBinding, Term]]) -> Term:
        any_binding = disj(*(conj(where, self._binds(binding)) for binding, where in bindings))
        taking = [
            conj(where, self._binds(binding))
            for binding, where in bindings
            if max((_ACTIONS[action] for action in binding.validation_actions), default=Level.ADMITTED) >= level
        ]
        denied, broken = self.outcome()
        return disj(conj(denied, disj(*taking)), conj(broken, any_binding))

    def outcome(self) -> tuple[Term, Term]:
        """When the policy denies, and when an audit annotation makes it refuse whatever its bindings say."""
        applies, condition_failed = self.conditions()
        validations = [truth(value) for value in self.values(self._compiled.validations, matching=False)]
        fails = disj(*(each_fails for _, each_fails in validations))
        errors = disj(*(conj(negated(holds), negated(each_fails)) for holds, each_fails in validations))
        denied = conj(applies, disj(fails, errors) if self._fails else fails)
        if self._fails:
            denied = disj(denied, condition_failed)
        return denied, conj(applies, self._annotations_fail()) if self._fails else FALSE

    def conditions(self) -> tuple[Term, Term]:
        """When all match conditions are true, and when one is an error and none false."""
        pairs = [truth(value) for value in self.values(self._compiled.match_conditions, matching=True)]
        any_false = disj(*(fails for _, fails in pairs))
        all_true = conj(*(holds for holds, _ in pairs))
        return all_true, conj(negated(any_false), negated(all_true))

    def values(self, expressions: Sequence[CompiledExpression], *, matching: bool) -> list[Value]:
        """Expressions of one kind; those that do not compile are errors."""
        bindings = self._request.bindings(matching=matching)
        made: dict[str, Value | None] = {}

        def variable(name: str) -> Value | None:
            if name not in made:
                compiled = self._compiled.compiler.variables.get(name)
                if compiled is None:
                    made[name] = None
                elif compiled.program is None:
                    made[name] = FAILED
                else:
                    made[name] = FAILED  # one that reads itself fails
                    made[name] = translator.translate(compiled.program.ast)
            return made[name]

        translator = Translator(self._request.root, Environment(bindings, variable))
        return [FAILED if each.program is None else translator.translate(each.program.ast) for each in expressions]

    def _annotations_fail(self) -> Term:
        failed = []
        for value in self.values(self._compiled.audit_annotations, matching=False):
            fine = [guard for guard, case in spread(value) if isinstance(case, Str) or type(case).__name__ == "Null"]
            failed.append(negated(disj(*fine)))
        return disj(*failed)

    def _binds(self, binding: ValidatingAdmissionPolicyBinding) -> Term:
        return TRUE if binding.match_resources is None else self._matches(binding.match_resources)

    def _matches(self, section: MatchResources) -> Term:
        criteria = self._matcher.criteria(section)
        by_rules = disj(
            *(
                conj(self._request.is_target(index), self._by_rules(criteria, section, each.target))
                for index, each in enumerate(self._request.targets)
            )
        )
        return conj(
            by_rules, self._selects_namespace(section.namespace_selector), self._selects_object(section.object_selector)
        )

    def _by_rules(self, criteria: Criteria, section: MatchResources, target: Target) -> Term:
        request_class = self._matcher.request_class(attributes_of(target))
        names = sorted(
            {
                name
                for rule in (*section.resource_rules, *section.exclude_resource_rules)
                for name in rule.resource_names
            }
        )
        found, rest = [], TRUE
        for name in names:
            here = self._request.is_text(name, "name")
            rest = conj(rest, negated(here))
            found.append(conj(here, self._is_match(criteria.match_rules(request_class, name), target)))
        found.append(conj(rest, self._is_match(criteria.match_rules(request_class, ""), target)))
        return disj(*found)

    def _is_match(self, result: object, target: Target) -> Term:
        """Whether the rules match; as another version only where both sides match alike, and nothing is known of the target."""
        if result is None:
            return FALSE
        is_plain = isinstance(result, Match) and result.resource == target.resource
        if not is_plain and not (isinstance(result, Match) and self._request.is_alike):
            raise UnmodelledError(f"{target} is matched as another version of itself")
        return TRUE

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
        return conj(negated(is_connect), either_side)

    def _selects(self, selector: LabelSelector, node: Node) -> Term:
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

    def _is_label(self, node: Node, key: str, values: Sequence[str]) -> Term:
        texts = self._request.root.texts
        there, text = self._request.label(node, key)
        return conj(there, disj(*(texts.same(text, texts.literal(value)) for value in values)))
