from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.manifests.go_type.decode import plain
from replay.manifests.read.json_reader import JSONSyntaxError, read_json
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

VALUES = {
    "integers of all bases": ("[10, 0x1f, 0o17, 017, 0b11, 1_0, -5, +5]", [10, 31, 15, 15, 3, 10, -5, 5]),
    "octal with a digit too many is a float": ("08", 8),
    "floats": ("[1.5, .5, 1e3, 10.0]", [1.5, 0.5, 1000, 10]),
    "booleans of YAML 1.1": ("[yes, On, n, FALSE, y, true]", [True, True, False, False, True, True]),
    "words that are none": (
        "[yEs, Tru, none, 1.2.3, 0:20, 0x, 2001-01-01]",
        ["yEs", "Tru", "none", "1.2.3", "0:20", "0x", "2001-01-01"],
    ),
    "null": ("[~, null, '', ]", [None, None, ""]),
    "a quoted scalar is a string": ("['1', \"yes\"]", ["1", "yes"]),
    "keys become strings": ("{1: a, true: b, 1.5: c}", {"1": "a", "1.5": "c", "true": "b"}),
    "unsigned 64 bits": ("18446744073709551615", 18446744073709551615),
    "tags": ("[!!str 1, !!float 1, !custom x, !!binary eA==]", ["1", 1, "x", "x"]),
    "merge keys": ("{a: &a {x: 1}, b: {<<: *a, z: 2}}", {"a": {"x": 1}, "b": {"x": 1, "z": 2}}),
    "only the first document": ("a: 1\n...\nb: [", {"a": 1}),
    "nothing": ("# only a comment", None),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    text, value = VALUES[name]
    document = read_yaml(text.encode())
    assert (plain(document.node), document.duplicates) == (value, ())


ERRORS = {
    "alias without anchor": ("a: *b", "yaml: unknown anchor 'b' referenced"),
    "an anchor within itself": ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
    "null key": ("~: x", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "x"'),
    "a list as key": ("[1]: 3", "yaml: invalid map key: []interface {}{1}"),
    "a list with a large float as key": ("? [1.0e+22]\n: x", "yaml: invalid map key: []interface {}{1e+22}"),
    "no number in JSON": ("a: .nan", "json: unsupported value: NaN"),
    "tag that does not fit": ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
    "control character": ("a: \x01", "yaml: control characters are not allowed"),
    "scanner errors count lines from 1": ("a:\n\tb: 2\n", "yaml: line 2: found character that cannot start any token"),
    "parser errors count lines from 0": ("a:\n  - [b\nc: }", "yaml: line 2: did not find expected ',' or ']'"),
    "no line where it is the first": ("a: b: c", "yaml: mapping values are not allowed in this context"),
    "question mark in flow style": ("a:\n- [x ?y]", "yaml: line 1: did not find expected ',' or ']'"),
    "deep": ("[" * 20_000, "yaml: exceeded max depth of 10000"),
    "merge of a scalar": ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    text, message = ERRORS[name]
    with pytest.raises(YAMLSyntaxError) as caught:
        read_yaml(text.encode())
    assert str(caught.value) == message


DUPLICATES = {
    "same key": ("a: 1\nb: 2\na: 3\n", ['line 3: key "a" already set in map']),
    "same key, once quoted": ('a: 1\n"a": 3\n', ['line 2: key "a" already set in map']),
    "same value, other words": ("yes: 1\ntrue: 2\n", ["line 2: key true already set in map"]),
    "merged and given": ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n", ['line 4: key "a" already set in map']),
    "a number and its text are two keys": ("1: a\n'1': b\n", []),
}


@pytest.mark.parametrize("name", DUPLICATES)
def test_duplicate_keys(name: str) -> None:
    text, messages = DUPLICATES[name]
    assert [duplicate.message for duplicate in read_yaml(text.encode()).duplicates] == messages


def test_alias_bomb_is_refused_quickly() -> None:
    levels = "".join(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    started = time.process_time()
    with pytest.raises(YAMLSyntaxError, match="document contains excessive aliasing"):
        read_yaml(f"l0: &l0 [a]\n{levels}".encode())
    assert time.process_time() - started < 5


def test_positions_count_from_the_line_of_the_file() -> None:
    node = read_yaml(b"a:\n  b: c\n", first_line=10).node
    assert [(entry.key, entry.position) for entry in node.entries] == [("a", (10, 1))]  # type: ignore[union-attr]


def is_refused(data: bytes) -> bool:
    refused = False
    for read, error in ((read_yaml, YAMLSyntaxError), (read_json, JSONSyntaxError)):
        try:
            read(data)
        except error:
            refused = True
    return refused


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text("{}[]:,-?&*!|>'\"%@#~ \n\tax01", max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert is_refused(data) in (True, False)
