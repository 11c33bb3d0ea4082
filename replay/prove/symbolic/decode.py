"""Decoder that reads a solution as a request. The caller checks whether the request is valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.schema import Schema, Schemas
from replay.prove.request import SymbolicRequest
from replay.prove.search.generator import NAMESPACE_KIND
from replay.prove.search.skeleton import item_name, least, with_members
from replay.prove.search.target import ParamSlot
from replay.prove.symbolic.node import KINDS, JsonNode, Root
from replay.prove.symbolic.request_model import RequestModel
from replay.prove.symbolic.solver import SolverValue
from replay.prove.symbolic.term import BOOL, INT, REAL, Term, apply, variable
from replay.prove.symbolic.text_fact import atom_of
from replay.prove.symbolic.text_language import TextPredicate, combinations, is_regular, quantity_of

_CANDIDATES = ("", "a", "1", "100m", "1Gi", "3Gi", "10Gi", "16Gi", "5", "0", "true", "a/b:c", "x.y", "a-b", "50%")
_MOST_ITEMS = 40


def wanted_terms(model: RequestModel) -> list[Term]:
    """Return the terms whose values form a request."""
    root = model.root
    asked_terms = [model.choice, model.has_object, model.has_old_object, model.has_namespace]
    asked_terms += [there for there, _ in model.params.values()]
    for node in root.nodes.values():
        asked_terms += [
            node.kind_term,
            node.truth,
            variable(f"int {node.name}", INT),
            node.double,
            node.text,
            node.size,
        ]
        asked_terms += [present for present, _ in node.parts.values()]
        asked_terms += [term for present, key, _ in node.fresh for term in (present, key)]
    for term, predicates in root.texts.predicates.items():
        asked_terms += [term, *(atom_of(root, predicate, term) for predicate in predicates)]
    for term in root.amounts:
        asked_terms += [apply("is quantity", (term,), BOOL), apply("amount", (term,), REAL)]
    for node, terms in root.sought.items():
        asked_terms += [apply(f"in {node.name}", (term,), BOOL) for term in terms]
    return list(dict.fromkeys(asked_terms))


class Decoder:
    """Decoder of the values of one solution."""

    def __init__(
        self, model: RequestModel, values: Mapping[Term, SolverValue], schemas: Schemas, slots: Sequence[ParamSlot]
    ) -> None:
        """`values` are the values of `wanted_terms`. `schemas` describe parts about which the solution says nothing.

        `slots` are the parameters of requests.
        """
        self._schemas = schemas
        self._slots = slots
        self._model = model
        self._root: Root = model.root
        self._values = values
        self._literals = {number: text for text, number in self._root.texts.literals.items()}
        self._texts: dict[int, str] = {}
        self._used = set(self._literals.values())

    def target(self) -> int:
        """Return the index of the target."""
        return int(self._values.get(self._model.choice, 0))

    def request(self, base: SymbolicRequest) -> SymbolicRequest:
        """Return the base request with the values of the solution."""
        model = self._model
        parts: dict[str, Any] = {}
        for side, node, there in (
            ("object", model.object, model.has_object),
            ("old_object", model.old_object, model.has_old_object),
            ("namespace_object", model.namespace, model.has_namespace),
        ):
            base_value = getattr(base, side)
            if base_value is not None and self._is_true(there):
                kind = NAMESPACE_KIND if side == "namespace_object" else base.target.kind
                parts[side] = self._over(base_value, node, self._schemas.for_kind(kind))
        parts["params"] = tuple(self._param(slot, param) for slot, param in zip(self._slots, base.params, strict=True))
        parts.update(self._request_parts(base))
        return base.with_parts(parts)

    def _param(self, slot: ParamSlot, base: JSON) -> JSON:
        """Return the parameter of a slot, or None if it does not exist."""
        nodes = [part for (each, _), part in self._model.params.items() if each == slot]
        if not nodes:
            return base
        there = next((node for has, node in nodes if self._is_true(has)), None)
        return None if there is None else self._over(base, there, self._schemas.for_kind(slot.kind))

    def _request_parts(self, base: SymbolicRequest) -> dict[str, Any]:
        node = self._model.request
        parts: dict[str, Any] = {"user": self._user(node.part("userInfo")[1], base.user)}
        if base.target.namespaced and "namespace" in node.parts:
            term = node.parts["namespace"][1].text
            parts["namespace"] = (self._text(term) if term in self._values else "") or base.namespace
        if "dryRun" in node.parts:
            parts["dry_run"] = self._is_true(node.parts["dryRun"][1].truth)
        return parts

    def _user(self, node: JsonNode, base: UserInfo) -> UserInfo:
        def text(key: str, default: str) -> str:
            entry = node.parts.get(key)
            if entry is None:
                return default
            if entry[1].text not in self._values:
                return default
            return self._text(entry[1].text) if self._is_true(entry[0]) else ""

        groups: tuple[str, ...] = base.groups
        extra: dict[str, tuple[str, ...]] = {}
        if "groups" in node.parts:
            present, child = node.parts["groups"]
            groups = tuple(str(each) for each in self._list(child, child.schema)) if self._is_true(present) else ()
        if "extra" in node.parts and self._is_true(node.parts["extra"][0]):
            extra_value = self._map(node.parts["extra"][1], None)
            extra = {key: tuple(map(str, items)) for key, items in extra_value.items() if isinstance(items, list)}
        return UserInfo(text("username", base.username), text("uid", base.uid), groups, extra)

    def _is_true(self, term: Term) -> bool:
        if term.op == "const":
            return bool(term.value)
        return bool(self._values.get(term, False))

    def _kind(self, node: JsonNode) -> str:
        if len(node.allowed) == 1:
            return node.allowed[0]
        return KINDS[int(self._values.get(node.kind_term, 0)) % len(KINDS)]

    def _value(self, node: JsonNode, schema: Schema | None) -> JSON:  # noqa: PLR0911 - one case a kind
        match self._kind(node):
            case "null":
                return None
            case "bool":
                return self._is_true(node.truth)
            case "int":
                return int(self._values.get(variable(f"int {node.name}", INT), 1))
            case "double":
                number = float(Fraction(self._values.get(node.double, 0)))
                # A whole number would be read from JSON as an int.
                return number + 0.5 if number.is_integer() and abs(number) < 1e9 else number
            case "string":
                return self._text_of(node, schema)
            case "list":
                return self._list(node, schema)
        return self._map(node, schema)

    def _text_of(self, node: JsonNode, schema: Schema | None) -> str:
        """Return the text of a node. If no formula reads it, it is a usual text."""
        if node.text in self._values:
            return self._text(node.text)
        usual = least(schema) if schema is not None else "example"
        return usual if isinstance(usual, str) and usual else "example"

    def _over(self, base: JSON, node: JsonNode, schema: Schema | None) -> JSON:
        """Return a known value with the parts that the solution defines."""
        kind = self._kind(node)
        if kind == "map" and isinstance(base, dict):
            copy = dict(base)
            for key, (present, child) in node.parts.items():
                below = None if schema is None else schema.field(key)
                if not self._is_true(present):
                    copy.pop(key, None)
                elif child.parts or child.items or child.fresh:
                    copy[key] = self._over(copy.get(key), child, below)
                elif key not in copy or self._is_asked(child):
                    copy[key] = self._value(child, below)
            copy.update(self._further(node, schema))
            return with_members(copy, schema, self._present(node))
        if kind == "list" and isinstance(base, list):
            return self._list(node, schema, base)
        if kind == "map" and base is None and schema is not None:
            skeleton = least(schema)
            return self._over(skeleton, node, schema) if isinstance(skeleton, dict) else self._map(node, schema)
        return self._value(node, schema)

    def _is_asked(self, node: JsonNode) -> bool:
        """Return whether formulas read the value of a node."""
        return any(
            term in self._values for term in (node.text, variable(f"int {node.name}", INT), node.truth, node.double)
        )

    def _map(self, node: JsonNode, schema: Schema | None) -> dict[str, JSON]:
        base = least(schema) if schema is not None else {}
        entries: dict[str, JSON] = dict(base) if isinstance(base, dict) else {}
        for key, (present, child) in node.parts.items():
            below = None if schema is None else schema.field(key)
            if self._is_true(present):
                entries[key] = self._value(child, below)
            else:
                entries.pop(key, None)
        entries.update(self._further(node, schema))
        entries = with_members(entries, schema, self._present(node))
        # The size may count entries that no formula names, so that any names serve.
        missing = int(self._values.get(node.size, 0)) - len(entries)
        if (schema is None or schema.values is not None) and 0 < missing <= _MOST_ITEMS:
            entries.update({f"key-{index}": "x" for index in range(missing)})
        return entries

    def _present(self, node: JsonNode) -> list[str]:
        """Return the fields that are present in the solution."""
        return [key for key, (present, _) in node.parts.items() if self._is_true(present)]

    def _further(self, node: JsonNode, schema: Schema | None) -> Iterator[tuple[str, JSON]]:
        below = None if schema is None else schema.values
        for present, key, child in node.fresh:
            if self._is_true(present):
                yield self._text(key) or "key", self._value(child, below)

    def _list(self, node: JsonNode, schema: Schema | None, base: list[JSON] | None = None) -> list[JSON]:
        size = min(max(int(self._values.get(node.size, 0)), 0), _MOST_ITEMS)
        below = None if schema is None else schema.items
        items: list[JSON] = []
        for index in range(size):
            begun = base[index] if base is not None and index < len(base) else None
            if index in node.items:
                item = self._over(begun, node.items[index], below)
            else:
                item = begun if begun is not None else least(below) if below is not None else "x"
            items.append(_uniquely_named(item, index, node))
        texts = [self._text(term) for term in self._root.sought.get(node, ()) if self._is_in(node, term)]
        if texts:
            items = [*texts, *[item for item in items if item not in texts]][: max(len(texts), size)]
        return items

    def _is_in(self, node: JsonNode, term: Term) -> bool:
        return bool(self._values.get(apply(f"in {node.name}", (term,), BOOL), False))

    def _text(self, term: Term) -> str:
        number = int(self._values.get(term, 0)) if term.op != "const" else int(str(term.value))
        if number in self._literals:
            return self._literals[number]
        if number not in self._texts:
            self._texts[number] = self._sample(number)
        return self._texts[number]

    def _sample(self, number: int) -> str:
        """Return a text with the answers that the solution has for a text number."""
        answers: dict[TextPredicate, bool] = {}
        amount: Fraction | None = None
        for term, predicates in self._root.texts.predicates.items():
            if self._values.get(term) == number:
                for predicate in predicates:
                    answers[predicate] = bool(self._values.get(atom_of(self._root, predicate, term), False))
        for term in self._root.amounts:
            if self._values.get(term) == number and self._values.get(apply("is quantity", (term,), BOOL)):
                amount = Fraction(self._values.get(apply("amount", (term,), REAL), 0))
        for text in self._candidates(answers, amount):
            if text not in self._used and all(each.holds(text) in {want, None} for each, want in answers.items()):
                # Different numbers are different texts.
                self._used.add(text)
                return text
        return f"x{number}"

    def _candidates(self, answers: Mapping[TextPredicate, bool], amount: Fraction | None) -> Iterator[str]:
        if amount is not None:
            yield from _amounts(amount)
        regular = tuple(each for each in answers if is_regular(each))
        results = combinations(regular) if regular else None
        answers_of_model = tuple(answers[each] for each in regular)
        for result, text in results.samples if results is not None else ():
            if result == answers_of_model:
                yield text
                yield from (text + end for end in ("a", "1", "b", ":1.0", "/a"))
                yield from (start + text for start in ("a", "b", "1"))
        yield from _CANDIDATES
        yield from (f"x{index}" for index in range(20))


def _amounts(amount: Fraction) -> Iterator[str]:
    for text in _CANDIDATES:
        if quantity_of(text) == amount:
            yield text
    if amount.denominator == 1:
        yield str(amount.numerator)
    else:
        yield f"{int(amount * 1000)}m"


def _uniquely_named(item: JSON, index: int, node: JsonNode) -> JSON:
    """Return a list item with a unique name, unless the solution gives it one."""
    named = node.items.get(index)
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or (named and "name" in named.parts):
        return item
    return {**item, "name": item_name(item["name"], str(node.path[-1]) if node.path else "", index)}
