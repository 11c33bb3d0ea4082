"""Variables that Kyverno's policy webhook allows (`pkg/validation/policy`, `pkg/engine/context/mock_context.go`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.rules.autogen import compute_rules
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.jmespath.library import Library
from replay.kyverno.rules.response import GoPanicError, JMESPathError, RuleError, UndeterminedError
from replay.kyverno.rules.substitution import VARIABLES, substitute
from replay.kyverno.wildcard import matches_any

Rule = Mapping[str, Any]
_ALLOWED = r"request|serviceAccountName|serviceAccountNamespace|element|elementIndex|@|images|image|([a-z_0-9]+\()[^{}]"
_IN_BACKGROUND = r"request\.|element|elementIndex|@|images|images\.|image\.|([a-z_0-9]+\()[^{}]"
_IN_TARGET = r"request\.|serviceAccountName|serviceAccountNamespace|element|elementIndex|@|images|images\.|image\.|target\.|([a-z_0-9]+\()[^{}]"
_BACKGROUND_TARGET = r"request\.|element|elementIndex|@|images|images\.|image\.|target\.|([a-z_0-9]+\()[^{}]"
_OF_USERS = tuple(
    re.compile(rf"[^\.]({name})\b", re.ASCII)
    for name in (
        "serviceAccountName",
        "serviceAccountNamespace",
        "request.userInfo",
        "request.roles",
        "request.clusterRoles",
    )
)
_ANY_VARIABLE = re.compile(r"\{\{[^{}]*\}\}")


class _InvalidVariableError(Exception):
    """Variable that is not allowed. Substitution adds no prefix to its message."""


class _Mock:
    """Variables with unknown values, which must be among the allowed ones."""

    operation = ""

    def __init__(self, library: Library, allowed: str, names: Iterable[str]) -> None:
        self._library = library
        self._allowed = allowed
        self._names = tuple(names)

    def query(self, expression: str) -> JSON:
        """Return null for an allowed variable. Raises RuleError for an invalid expression."""
        expression = expression.strip()
        if not expression:
            raise RuleError("invalid query (nil)")
        try:
            self._library.query(expression)
        except JMESPathError as error:
            raise RuleError(f"invalid JMESPath query {expression}: {error}") from None
        expression = expression.replace('"', "")
        if re.search(self._allowed, expression, re.ASCII) or matches_any(self._names, expression):
            return None
        names = " ".join(self._names)
        raise _InvalidVariableError(f'variable {expression} must match regex "{self._allowed}" or patterns [{names}]')


def background_problem(policy: Mapping[str, Any]) -> str | None:
    """Return why a policy cannot run in background scans, which know no user, or None."""
    problem = next(
        (found for index, rule in enumerate(compute_rules(policy, "")) if (found := _user_problem(index, rule))), None
    )
    rules = as_map(policy.get("spec")).get("rules") or ()
    if problem is None and not any(as_map(rule.get("mutate")).get("targets") for rule in rules):
        variables = (match.group().lstrip() for match in VARIABLES.finditer(marshal(policy)))
        named = (text[text.index("{{") :] for text in variables)
        banned = next((text for text in named if any(each.search(text) for each in _OF_USERS)), None)
        problem = f"variable {banned} is not allowed" if banned is not None else None
    if problem is None:
        return None
    return (
        "only select variables are allowed in background mode. Set spec.background=false to disable background mode "
        f"for this policy rule: {problem} "
    )


def _user_problem(index: int, rule: Rule) -> str | None:
    for block in ("match", "exclude"):
        filters = as_map(rule.get(block))
        orders = ("any", "all") if block == "match" else ("all", "any")
        places = [
            (block, filters),
            *((f"{block}/{key}[{i}]", each) for key in orders for i, each in enumerate(filters.get(key) or ())),
        ]
        for place, each in places:
            field = next((name for name in ("roles", "clusterRoles", "subjects") if each.get(name)), None)
            if field is not None:
                return f"invalid variable used at path: spec/rules[{index}]/{place}/{field}"
    return None


def variables_problem(policy: Mapping[str, Any], library: Library, *, background: bool) -> str | None:
    """Return the error in the variables of a policy's rules, or None."""
    for rule in compute_rules(policy, ""):
        problem = _forbidden_place(rule) or _substitution_problem(rule, library, background=background)
        if problem is not None:
            return f"policy contains invalid variables: {problem}"
    return None


def _forbidden_place(rule: Rule) -> str | None:
    for block in ("exclude", "match"):
        if rule.get(block) and _ANY_VARIABLE.search(marshal(rule[block])):
            return f'rule "{rule.get("name") or ""}" should not have variables in {block} section'
    return None


def _substitution_problem(rule: Rule, library: Library, *, background: bool) -> str | None:
    name, mutation = rule.get("name") or "", as_map(rule.get("mutate"))
    targets = mutation.get("targets") or ()
    plain = _IN_BACKGROUND if background else _ALLOWED
    own = list(_entry_names(rule.get("context")))
    for index, target in enumerate(targets):
        alone = {
            key: target[key] for key in ("apiVersion", "kind", "name", "namespace", "uid", "selector") if key in target
        }
        shown = {key: rule[key] for key in ("context", "preconditions") if key in rule}
        shown["mutate"] = {"targets": [alone]}
        if (problem := _problem(_Mock(library, plain, own), shown)) is not None:
            return f"invalid variables defined at mutate.targets[{index}]: {problem}"
    allowed = (_BACKGROUND_TARGET if background else _IN_TARGET) if targets else plain
    blocks = [*(as_map(rule.get("validate")).get("foreach") or ()), *(mutation.get("foreach") or ()), *targets]
    blocks += as_map(rule.get("generate")).get("foreach") or ()
    names = [*own, *(each for block in blocks for each in _entry_names(block.get("context")))]
    shown = {key: value for key, value in rule.items() if key != "verifyImages"}
    problem = _problem(_Mock(library, allowed, names), shown)
    return None if problem is None else f"variable substitution failed for rule {name}: {problem}"


def _problem(mock: _Mock, document: JSON) -> str | None:
    try:
        substitute(mock, document)
    except (GoPanicError, UndeterminedError):
        return None
    except (RuleError, _InvalidVariableError) as error:
        return str(error)
    return None


def _entry_names(entries: JSON) -> Iterable[str]:
    """Yield the names that `context` entries define, as patterns."""
    for entry in entries or ():
        name = entry.get("name") or ""
        if entry.get("configMap") is not None:
            yield from (f"{name}.data", f"{name}.metadata", f"{name}.data.*", f"{name}.metadata.*")
        else:
            yield f"{name}*"
