"""Hostile Rego: refused, or stopped within its budget of steps and memory, and nothing outside is reached."""

from __future__ import annotations

import resource
import sys
from typing import Any

import pytest

from replay.gatekeeper.engine import GatekeeperEngine

REQUEST = {
    "uid": "1",
    "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
    "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    "operation": "CREATE",
    "name": "a",
    "userInfo": {"username": "a"},
    "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
}


def _shared(name: str) -> str:
    """A value of 4 to the power of 30 parts, which are shared."""
    return "; ".join([f'{name}0 := ["x"]', *(f"{name}{n + 1} := [{', '.join([f'{name}{n}'] * 4)}]" for n in range(30))])


STOPPED = {
    "an endless comprehension": 'x := [a | a := numbers.range(1, 10000)[_]; numbers.range(1, 10000)[_]; numbers.range(1, 10000)[_]]\n  msg := sprintf("%v", [x])',
    "nested loops that find nothing": 'r := numbers.range(1, 3000)\n  r[a]; r[b]; r[c]; a + b + c == 0\n  msg := "x"',
    "a text of 100 MB": 'msg := replace(replace(sprintf("%01000000d", [0]), "0", sprintf("%0100d", [0])), "0", "00")',
    "a list of 100 million numbers": 'msg := sprintf("%v", [count(numbers.range(1, 100000000))])',
    "a set of all subsets": 'x := {a | numbers.range(1, 60000)[_] = b; numbers.range(1, 60000)[_] = c; a := [b, c]}\n  msg := sprintf("%v", [x])',
    "a shift of a thousand million bits": 'msg := sprintf("%d", [bits.lsh(1, 1000000000)])',
    "large shifts": 'x := [y | n := numbers.range(1, 10000)[_]; y := bits.lsh(n, 9000000)]\n  msg := sprintf("%v", [count(x)])',
    "squares of squares": f'x0 := 1e300\n  {"; ".join(f"x{n + 1} := x{n} * x{n}" for n in range(40))}\n  msg := sprintf("%v", [x40])',
    "a number with a large exponent": 'x := json.unmarshal("1e999999999")\n  x > 1\n  msg := "x"',
    "a literal with a large exponent": 'x := 1e999999999\n  x > 1\n  msg := "x"',
    "long lists in a list": 'x := [y | numbers.range(1, 10000)[_]; y := numbers.range(1, 10000)]\n  msg := sprintf("%v", [count(x)])',
    "long texts in a list": 'a := sprintf("%0900000d", [0])\n  x := [y | n := numbers.range(1, 100000)[_]; y := concat("", [a, sprintf("%d", [n])])]\n  msg := sprintf("%v", [count(x)])',
    "large sets": 's := {n | n := numbers.range(1, 50000)[_]}\n  x := [t | n := numbers.range(1, 100000)[_]; t := s | {n}]\n  msg := sprintf("%v", [count(x)])',
    "a large object": 'x := {n: m | n := numbers.range(1, 3000)[_]; m := {k: n | k := numbers.range(1, 3000)[_]}}\n  msg := sprintf("%v", [count(x)])',
    "shared parts, compared": f'{_shared("a")}; {_shared("b")}; a30 == b30; msg := "x"',
    "shared parts, in a set": f'{_shared("a")}; x := {{a30}}; msg := sprintf("%v", [count(x)])',
    "shared parts, printed": f"{_shared('a')}; msg := json.marshal(a30)",
    "sums in a loop": 'x := numbers.range(1, 100000)\n  numbers.range(1, 100000)[_]; sum(x) == 0\n  msg := "x"',
    "long lists compared in a loop": 'x := numbers.range(1, 100000)\n  numbers.range(1, 100000)[_]; x == array.reverse(x)\n  msg := "x"',
    "long texts searched in a loop": 'x := sprintf("%0900000d", [0])\n  numbers.range(1, 900000)[_]; contains(x, "1")\n  msg := "x"',
    "matches of a long text": 'x := regex.find_n("0", sprintf("%0900000d", [0]), -1)\n  msg := sprintf("%v", [count(x)])',
    "a product of many digits": 'msg := sprintf("%d", [product(numbers.range(1, 100000))])',
    "millions of violations": 'msg := sprintf("%0100d", [numbers.range(1, 1000000)[_]])',
    "a text of a hundred thousand brackets": f"msg := {'[' * 100_000}{']' * 100_000}",
    "what the machine holds": 'msg := sprintf("%v", [opa.runtime()])',
}
REFUSED = {
    "a call of the network": 'http.send({"method": "get", "url": "http://localhost"})\n  msg := "x"',
    "a rule that needs itself": "msg := data.template.more\n}\nmore = x {\n  x := more",
    "a function that needs itself": "msg := deep(1)\n}\ndeep(x) = y {\n  y := deep(x + 1)",
    "other data": "msg := data.constraints.X.y.spec",
}


def _engine(body: str) -> GatekeeperEngine:
    rego = f'package x\nviolation[{{"msg": msg}}] {{\n  {body}\n}}\n'
    template = {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {"name": "x"},
        "spec": {
            "crd": {"spec": {"names": {"kind": "X"}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": rego}],
        },
    }
    constraint = {"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "X", "metadata": {"name": "y"}, "spec": {}}
    return GatekeeperEngine([template, constraint], [])


@pytest.mark.slow
@pytest.mark.parametrize("body", STOPPED.values(), ids=list(STOPPED))
def test_what_takes_too_much_is_undetermined(body: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine = _engine(body)
    assert engine.refused() == []
    found: dict[str, Any] = engine.results(REQUEST, REQUEST)
    assert list(found) == ["undetermined"]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sys.platform != "linux" or grown < 600_000, f"{grown} KiB more"


@pytest.mark.parametrize("body", REFUSED.values(), ids=list(REFUSED))
def test_what_reaches_out_or_never_ends_is_refused(body: str) -> None:
    assert [each.split(":")[0] for each in _engine(body).refused()] == ["ConstraintTemplate/x", "X/y"]
