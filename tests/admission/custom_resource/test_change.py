"""What a schema and its rules refuse, in the words of `customresource.NewStrategy` of apiextensions-apiserver 0.37.2."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.custom_resource import Judgement, invalid_text, judged
from replay.cellib.version import NEWEST
from replay.json import JSON


def obj(spec: JSON) -> JSON:
    """A custom object."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}, "spec": spec}


def schema(spec: JSON, **more: Any) -> JSON:
    """The schema of a kind whose objects have a spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", **spec}}, **more}


SIZE = {"properties": {"size": {"type": "integer", "maximum": 3}}}
TEXT = {"type": "string"}


def ruled(*rules: JSON, props: JSON = None, **more: Any) -> JSON:
    """A schema whose spec has rules."""
    fields = props or {"size": {"type": "integer"}, "name": TEXT}
    return schema({"properties": fields, "x-kubernetes-validations": list(rules), **more})


def r(rule: str, **more: str) -> JSON:
    """A rule."""
    return {"rule": rule, **more}


PART = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "count": {"type": "integer", "maximum": 3}},
    "x-kubernetes-validations": [r("self.count >= oldSelf.count", message="parts do not shrink")],
}
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
LIST = {"properties": {"parts": {"type": "array", **BY_NAME, "items": PART}}}


CASES: dict[str, tuple[JSON, JSON, JSON, str]] = {
    "fits": (schema(SIZE), obj({"size": 3}), None, ""),
    "over a limit": (
        schema(SIZE),
        obj({"size": 4}),
        None,
        "spec.size: Invalid value: 4: spec.size in body should be less than or equal to 3",
    ),
    "another type": (
        schema(SIZE),
        obj({"size": "a"}),
        None,
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    ),
    "another type with rules": (
        ruled(r("self.size <= 3")),
        obj({"size": "a"}),
        None,
        '[spec.size: Invalid value: "string": spec.size in body must be of type integer: "string", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]',
    ),
    "a missing field": (schema({**SIZE, "required": ["size"]}), obj({}), None, "spec.size: Required value"),
    "a missing field with rules": (
        ruled(r("true"), required=["size"]),
        obj({}),
        None,
        "[spec.size: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]",
    ),
    "a missing field with a default": (
        schema({"properties": {"size": {"type": "integer", "default": 1}}, "required": ["size"]}),
        obj({}),
        None,
        "",
    ),
    "no value that is listed": (
        schema({"properties": {"name": {"type": "string", "enum": ["a", "b"]}}}),
        obj({"name": "c"}),
        None,
        'spec.name: Unsupported value: "c": supported values: "a", "b"',
    ),
    "two errors": (
        schema({"properties": {"name": {"type": "string", "maxLength": 2}, "size": {"type": "integer", "minimum": 3}}}),
        obj({"name": "long"}),
        None,
        "spec.name: Too long: may not be more than 2 bytes",
    ),
    "a rule that is broken twice": (
        schema(
            {
                "properties": {
                    "parts": {
                        "type": "array",
                        "items": {"type": "integer", "x-kubernetes-validations": [r("self < 2", message="small")]},
                    }
                }
            }
        ),
        obj({"parts": [1, 2, 3]}),
        None,
        "[spec.parts[1]: Invalid value: 2: small, spec.parts[2]: Invalid value: 3: small]",
    ),
    "a pattern": (
        schema({"properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}}}),
        obj({"name": "A1"}),
        None,
        "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'",
    ),
    "too many items": (
        schema({"properties": {"parts": {"type": "array", "maxItems": 1, "items": {"type": "string"}}}}),
        obj({"parts": ["a", "b"]}),
        None,
        "spec.parts: Too many: 2: must have at most 1 item",
    ),
    "an unknown field is dropped": (schema(SIZE), obj({"size": 1, "more": 9}), None, ""),
    "an update that leaves what is wrong": (
        schema({"properties": {"size": {"type": "integer", "maximum": 3}, "name": {"type": "string"}}}),
        obj({"size": 9, "name": "b"}),
        obj({"size": 9, "name": "a"}),
        "",
    ),
    "an update that changes what is wrong": (
        schema(SIZE),
        obj({"size": 8}),
        obj({"size": 9}),
        "spec.size: Invalid value: 8: spec.size in body should be less than or equal to 3",
    ),
    "a required field that was never there": (
        schema({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}),
        obj({"b": "2"}),
        obj({"b": "1"}),
        "spec.a: Required value",
    ),
    "a rule that holds": (ruled(r("self.size <= 3")), obj({"size": 3}), None, ""),
    "a rule": (ruled(r("self.size <= 3")), obj({"size": 4}), None, "spec: Invalid value: failed rule: self.size <= 3"),
    "a rule with a message": (
        ruled(r("self.size <= 3", message=" too large ")),
        obj({"size": 4}),
        None,
        "spec: Invalid value: too large",
    ),
    "a rule with an expression for the message": (
        ruled(r("self.size <= 3", messageExpression="'size is ' + string(self.size)")),
        obj({"size": 4}),
        None,
        "spec: Invalid value: size is 4",
    ),
    "a rule on a scalar": (
        schema({"properties": {"size": {"type": "integer", "x-kubernetes-validations": [r("self <= 3")]}}}),
        obj({"size": 4}),
        None,
        "spec.size: Invalid value: 4: failed rule: self <= 3",
    ),
    "a rule on a text": (
        schema(
            {
                "properties": {
                    "name": {
                        "type": "string",
                        "x-kubernetes-validations": [r("self.startsWith('a')", message="begins with a")],
                    }
                }
            }
        ),
        obj({"name": "b"}),
        None,
        'spec.name: Invalid value: "b": begins with a',
    ),
    "a reason": (
        ruled(r("self.size <= 3", message="no", reason="FieldValueForbidden")),
        obj({"size": 4}),
        None,
        "spec: Forbidden: no",
    ),
    "a path": (
        ruled(r("self.size <= 3", message="no", fieldPath=".size")),
        obj({"size": 4}),
        None,
        "spec.size: Invalid value: no",
    ),
    "a rule that fails": (
        ruled(r("self.size <= 3 && self.name == 'x'")),
        obj({"size": 1}),
        None,
        "spec: Invalid value: \"object\": no such key: name evaluating rule: self.size <= 3 && self.name == 'x'",
    ),
    "two rules": (
        ruled(r("self.size <= 3", message="one"), r("self.name == 'a'", message="two")),
        obj({"size": 4, "name": "b"}),
        None,
        "[spec: Invalid value: one, spec: Invalid value: two]",
    ),
    "a transition on creation": (ruled(r("self.size >= oldSelf.size")), obj({"size": 1}), None, ""),
    "a transition": (
        ruled(r("self.size >= oldSelf.size", message="does not shrink")),
        obj({"size": 1}),
        obj({"size": 2}),
        "spec: Invalid value: does not shrink",
    ),
    "a transition of what did not change": (
        ruled(r("self.size > oldSelf.size", message="grows")),
        obj({"size": 1}),
        obj({"size": 1}),
        "spec: Invalid value: grows",
    ),
    "a rule on what did not change": (ruled(r("self.size <= 3")), obj({"size": 9}), obj({"size": 9}), ""),
    "items by their keys": (
        schema(LIST),
        obj({"parts": [{"name": "b", "count": 1}, {"name": "a", "count": 2}]}),
        obj({"parts": [{"name": "a", "count": 2}, {"name": "b", "count": 2}]}),
        "spec.parts[0]: Invalid value: parts do not shrink",
    ),
    "a new item": (
        schema(LIST),
        obj({"parts": [{"name": "c", "count": 4}]}),
        obj({"parts": [{"name": "a", "count": 2}]}),
        "spec.parts[0].count: Invalid value: 4: spec.parts[0].count in body should be less than or equal to 3",
    ),
    "an unchanged item": (
        schema(LIST),
        obj({"parts": [{"name": "a", "count": 9}, {"name": "b", "count": 1}]}),
        obj({"parts": [{"name": "a", "count": 9}]}),
        "",
    ),
    "a rule of the root": (
        {**schema(SIZE), "x-kubernetes-validations": [r("self.metadata.name == 'v'", message="is called v")]},
        obj({"size": 1}),
        None,
        "<nil>: Invalid value: is called v",
    ),
    "names that are escaped": (
        ruled(
            r("self.max__dash__size <= 3 && self.__namespace__ == 'a'"),
            props={"max-size": {"type": "integer"}, "namespace": {"type": "string"}},
        ),
        obj({"max-size": 4, "namespace": "a"}),
        None,
        "spec: Invalid value: failed rule: self.max__dash__size <= 3 && self.__namespace__ == 'a'",
    ),
    "a number": (
        ruled(r("self.share <= 0.5", message="too large"), props={"share": {"type": "number"}}),
        obj({"share": 1}),
        None,
        "spec: Invalid value: too large",
    ),
    "a map": (
        schema(
            {
                "properties": {
                    "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}}
                },
                "x-kubernetes-validations": [r("self.labels.all(k, k != 'x')")],
            }
        ),
        obj({"labels": {"x": "a"}}),
        None,
        "spec: Invalid value: failed rule: self.labels.all(k, k != 'x')",
    ),
    "an int or a string": (
        ruled(r("type(self.port) == int", message="a number"), props={"port": {"x-kubernetes-int-or-string": True}}),
        obj({"port": "http"}),
        None,
        "spec: Invalid value: a number",
    ),
    "an object of the wrong type": (
        schema({"properties": {"parts": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
        obj({"parts": "x"}),
        None,
        'spec.parts: Invalid value: "string": spec.parts in body must be of type object: "string"',
    ),
    "a list of objects": (
        schema(LIST),
        obj({"parts": [{"count": 1}]}),
        None,
        "[spec.parts[0].name: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]",
    ),
    "a shorter text": (
        schema({"properties": {"name": {"type": "string", "minLength": 2}}}),
        obj({"name": "a"}),
        None,
        'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long',
    ),
    "a rule with a macro": (
        ruled(
            r("self.parts.exists_one(p, p.startsWith('a'))", message="one a"),
            props={"parts": {"type": "array", "items": {"type": "string"}}},
        ),
        obj({"parts": ["a1", "a2"]}),
        None,
        "spec: Invalid value: one a",
    ),
    "an index that is not there": (
        ruled(r("self.parts[3] == 'a'"), props={"parts": {"type": "array", "items": {"type": "string"}}}),
        obj({"parts": ["a1", "a2"]}),
        None,
        "spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.parts[3] == 'a'",
    ),
    "libraries": (
        ruled(r("isURL(self.name) && url(self.name).getScheme() == 'https'", message="https")),
        obj({"name": "http://a"}),
        None,
        "spec: Invalid value: https",
    ),
    "quantities": (
        ruled(r("quantity(self.name).isLessThan(quantity('1Gi'))", message="less")),
        obj({"name": "2Gi"}),
        None,
        "spec: Invalid value: less",
    ),
    "one of": (
        schema(
            {
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            }
        ),
        obj({"a": "x", "b": "y"}),
        None,
        '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ),
    "null": (
        ruled(r("self.size <= 3"), props={"size": {"type": "integer", "nullable": True}}),
        obj({"size": None}),
        None,
        'spec: Invalid value: "object": no such key: size evaluating rule: self.size <= 3',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_definition_that_was_not_known(name: str) -> None:
    kind, value, old, expected = CASES[name]
    assert judged(kind, None, value, old, NEWEST) == Judgement(errors(expected))


def errors(expected: str) -> tuple[str, ...]:
    """The errors of a text that lists them."""
    if not expected.startswith("["):
        return (expected,) if expected else ()
    return tuple(expected[1:-1].split(", ", 1) if "<nil>" in expected else expected[1:-1].split(", "))


def test_the_message_lists_what_is_wrong() -> None:
    assert invalid_text("Widget", "example.com", "w", ("a: b",)) == 'Widget.example.com "w" is invalid: a: b'
    assert invalid_text("Widget", "example.com", "w", ("a", "b")) == 'Widget.example.com "w" is invalid: [a, b]'


RULE = r("self.size <= 3")
CHANGES: dict[str, tuple[JSON, JSON, JSON, Judgement]] = {
    "what was wrong before is no reason": (schema(SIZE), schema(SIZE), obj({"size": 9}), Judgement()),
    "a limit that is new": (
        schema({"properties": {"size": {"type": "integer"}}}),
        schema(SIZE),
        obj({"size": 9}),
        Judgement(("spec.size: Invalid value: 9: spec.size in body should be less than or equal to 3",)),
    ),
    "a rule that was there": (ruled(RULE), ruled(RULE), obj({"size": 9}), Judgement()),
    "a rule that is new": (
        ruled(),
        ruled(RULE),
        obj({"size": 9}),
        Judgement(("spec: Invalid value: failed rule: self.size <= 3",)),
    ),
    "a format that is new": (
        schema({"properties": {"name": TEXT}}),
        schema({"properties": {"name": {**TEXT, "format": "uri"}}}),
        obj({"name": "a"}),
        Judgement((), ("replay does not check `format` in the schema of `spec.name`",)),
    ),
    "a format that was there": (
        schema({"properties": {"name": {**TEXT, "format": "uri"}}}),
        schema({"properties": {"name": {**TEXT, "format": "uri"}}, "required": ["name"]}),
        obj({"name": "a"}),
        Judgement(),
    ),
    "a choice of values": (
        schema({}),
        schema({"oneOf": [{"properties": {"a": {"enum": ["x"]}}}]}),
        obj({}),
        Judgement((), ("replay does not check `oneOf` in the schema of `spec`",)),
    ),
    "equal items of a set": (
        schema({"properties": {"parts": {"type": "array", "items": TEXT}}}),
        schema({"properties": {"parts": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}}}),
        obj({"parts": ["a", "a"]}),
        Judgement((), ("`spec.parts` has duplicate items, which its list type does not allow",)),
    ),
    "an old value that may be none": (
        ruled(),
        ruled({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}),
        obj({}),
        Judgement((), ("replay does not evaluate the rule `oldSelf.hasValue()`",)),
    ),
    "a time": (
        ruled(props={"at": {**TEXT, "format": "date-time"}}),
        ruled(r("self.at < timestamp('2026-01-01T00:00:00Z')"), props={"at": {**TEXT, "format": "date-time"}}),
        obj({"at": "2026-01-02T00:00:00Z"}),
        Judgement((), ("replay does not evaluate rules on values of format `date-time`",)),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_definition_that_changes(name: str) -> None:
    before, after, value, expected = CHANGES[name]
    assert judged(after, before, value, None, NEWEST) == expected
