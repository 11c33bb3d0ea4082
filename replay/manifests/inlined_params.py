"""Parameters written into a policy: `params` becomes a variable with one constant object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from replay.cel.ast.tree import Ast, Comprehension, Ident, Select
from replay.cel.ast.walk import descendants
from replay.json import JSON
from replay.manifests.expression import CheckedExpression

PARAMS = "params"
_STEP = re.compile(r"\.?([A-Za-z]+)|\[(\d+)\]")
_METADATA = ("name", "namespace", "labels", "annotations")


class NotConstantError(Exception):
    """Parameters of a binding that cannot be written into its policy. `advice` says what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        """`reason` says why, `advice` what to do."""
        super().__init__(reason)
        self.advice = advice


def with_params(policy: dict[str, Any], expressions: Sequence[CheckedExpression], param: JSON) -> dict[str, Any]:
    """Return a policy that reads a parameter from a variable, or in match conditions from a literal.

    The constant has the parts of the parameter that the expressions read. Raises NotConstantError if an expression
    cannot be rewritten.
    """
    trees = [(each.path, _tree(each)) for each in expressions]
    for validation in policy["spec"].get("validations", ()):
        _keep_message(validation)
    constant = f"dyn({_literal(_read(param, [tree for _, tree in trees]))})"
    names = {variable["name"] for variable in policy["spec"].get("variables", ())}
    name = next(
        each for each in (PARAMS, "param", *(f"{PARAMS}{n}" for n in range(len(names) + 1))) if each not in names
    )
    for path, tree in trees:
        # apiserver: match conditions see no variables
        text = constant if path.startswith("spec.matchConditions") else f"variables.{name}"
        _put(policy, path, _rewritten(tree, text))
    spec = {key: each for key, each in policy["spec"].items() if key != "paramKind"}
    spec["variables"] = [{"name": name, "expression": constant}, *spec.get("variables", ())]
    return {**policy, "spec": spec}


def _keep_message(validation: dict[str, Any]) -> None:
    """Set the default message, which contains the original expression (`validator.go`, `failed expression`)."""
    text = validation["expression"].strip()
    if not validation.get("message") and not validation.get("messageExpression") and "\n" not in text:
        validation["message"] = f"failed expression: {text}"


def _tree(expression: CheckedExpression) -> Ast:
    program = expression.compiled.program
    if program is None:
        raise NotConstantError(f"{expression.path} does not compile", "mend the expression")
    tree = program.ast
    for node in descendants(tree.expr):
        if isinstance(node, Comprehension) and PARAMS in (node.iter_var, node.iter_var2):
            raise NotConstantError(f"{expression.path} has a loop variable `{PARAMS}`", "give it another name")
    return tree


def _read(param: JSON, trees: Iterable[Ast]) -> JSON:
    """Return the parts of a parameter that expressions may read.

    They are the selected fields, or everything if an expression uses the parameter as a whole.
    """
    fields: set[str] = set()
    for tree in trees:
        nodes = descendants(tree.expr)
        selected = {id(node.operand): node.field for node in nodes if isinstance(node, Select)}
        for node in nodes:
            if isinstance(node, Ident) and node.name == PARAMS:
                if id(node) not in selected:
                    fields |= set(param)
                else:
                    fields.add(selected[id(node)])
    kept = {name: each for name, each in param.items() if name in fields}
    if "metadata" in kept:
        kept["metadata"] = {name: each for name, each in kept["metadata"].items() if name in _METADATA}
    return kept


def _rewritten(tree: Ast, text: str) -> str:
    """Return the text of an expression with `text` in the place of `params`."""
    source = tree.source.text
    nodes = descendants(tree.expr)
    places = {tree.positions[node.id] for node in nodes if isinstance(node, Ident) and node.name == PARAMS}
    # From the end, so that earlier positions stay valid.
    for place in sorted(places, reverse=True):
        if not source.startswith(PARAMS, place):
            raise NotConstantError(f"`{source}` cannot be rewritten", "write the parameters into it by hand")
        source = source[:place] + text + source[place + len(PARAMS) :]
    return source


def _literal(value: JSON) -> str:
    """Return JSON as a CEL literal.

    The server accepts no literal whose parts have different types, unless each part is dyn.
    """
    if isinstance(value, dict):
        parts = zip(map(_literal, value), _parts(list(value.values())), strict=True)
        return "{" + ", ".join(f"{key}: {each}" for key, each in parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_parts(value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # the escapes of JSON are escapes of CEL too


def _parts(values: Sequence[JSON]) -> Iterable[str]:
    is_plain = len({type(each) for each in values}) <= 1 and not any(isinstance(each, dict | list) for each in values)
    return (_literal(each) if is_plain else f"dyn({_literal(each)})" for each in values)


def _put(policy: dict[str, Any], path: str, text: str) -> None:
    """Set the field at a path such as `spec.validations[0].expression`."""
    steps = [name or int(index) for name, index in _STEP.findall(path)]
    holder: Any = policy
    for step in steps[:-1]:
        holder = holder[step]
    holder[steps[-1]] = text
