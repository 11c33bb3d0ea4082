"""Claims about pairs of policies: the result, and that each request shown is decided as it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import MatchResources, ParamRef, Rule
from replay.kube.discovery import builtin_discovery
from replay.prove.claim import Comparison, Proof
from replay.prove.context import context_of
from replay.prove.prover import ANY, UNBOUND, Prover, Settings, affordable_size
from replay.prove.search.hunt import hunt
from replay.prove.symbolic.solver import is_available
from replay.prove.symbolic.text_language import combinations
from replay.prove.unit import BoundPolicy, Pair
from tests.prove.policies import CONFIG_MAPS, DEPLOYMENTS, PODS, WIDGETS, labelled, unit, with_params

pytestmark = pytest.mark.skipif(not is_available(), reason="z3 is not installed")

IMAGES = "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"
TEAM = "has(object.metadata.labels) && 'team' in object.metadata.labels"


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    made = Prover(Settings(tries=200, attacks=300))
    yield made
    made.close()


ROWS: list[tuple[str, BoundPolicy, BoundPolicy, str]] = [
    (
        "the look-alike registry",
        unit(IMAGES, rules=[PODS]),
        unit(IMAGES.replace("com/", "com"), rules=[PODS]),
        "looser",
    ),
    (
        "a dropped guard",
        unit("!has(object.metadata.labels) || !('x' in object.metadata.labels)"),
        unit("!('x' in object.metadata.labels)"),
        "stricter",
    ),
    (
        "a quantity as text",
        unit(
            "object.spec.containers.all(c, quantity(c.resources.limits.memory).compareTo(quantity('2Gi')) <= 0)",
            rules=[PODS],
        ),
        unit("object.spec.containers.all(c, c.resources.limits.memory <= '2Gi')", rules=[PODS]),
        "both",
    ),
    (
        "a pattern without its anchor",
        unit("object.metadata.name.matches('^prod-[a-z]+$')", rules=[CONFIG_MAPS]),
        unit("object.metadata.name.matches('^prod-[a-z]+')", rules=[CONFIG_MAPS]),
        "looser",
    ),
    ("a limit", unit("object.spec.replicas <= 5"), unit("object.spec.replicas < 5"), "stricter"),
    ("the same limit", unit("object.spec.replicas < 6"), unit("object.spec.replicas <= 5"), "same"),
    (
        "a membership",
        unit("object.data['m'] in ['a', 'b']", rules=[WIDGETS]),
        unit("object.data['m'] == 'a' || object.data['m'] == 'b'", rules=[WIDGETS]),
        "same",
    ),
    (
        "a membership as a pattern",
        unit("object.metadata.labels['m'] in ['a', 'b']"),
        unit("object.metadata.labels['m'].matches('^(a|b)$')"),
        "same",
    ),
    ("another failure policy", unit(TEAM), unit(TEAM, failure_policy="Ignore"), "same"),
    (
        "another failure policy where errors are possible",
        unit("object.metadata.labels['team'] != ''"),
        unit("object.metadata.labels['team'] != ''", failure_policy="Ignore"),
        "looser",
    ),
    ("an action less", unit(TEAM), unit(TEAM, actions=["Audit"]), "looser"),
    ("an action more", unit(TEAM), unit(TEAM, actions=["Deny", "Audit"]), "same"),
    ("an operation less", unit(TEAM), unit(TEAM, rules=[replace(DEPLOYMENTS, operations=("CREATE",))]), "looser"),
    ("a resource more", unit(TEAM), unit(TEAM, rules=[replace(DEPLOYMENTS, resources=("*",))]), "stricter"),
    ("a selector", unit(TEAM), unit(TEAM, namespace_selector=labelled("env", "prod")), "looser"),
    ("an object selector", unit("false", object_selector=labelled("a", "b")), unit("false"), "stricter"),
    ("a match condition", unit(TEAM), unit(TEAM, conditions=["request.userInfo.username != 'ci'"]), "looser"),
    (
        "a condition of extra",
        unit("!('scope' in request.userInfo.extra)"),
        unit("true"),
        "looser",
    ),
    (
        "the authorizer",
        unit("authorizer.group('').resource('pods').check('create').allowed()"),
        unit("true"),
        "looser",
    ),
    (
        "two validations joined",
        unit(TEAM, "object.spec.replicas > 0"),
        unit(f"object.spec.replicas > 0 && ({TEAM})"),
        "same",
    ),
    (
        "nested loops",
        unit(*["object.spec.template.spec.containers.all(c, object.spec.template.spec.containers.all(d, c == d))"]),
        unit("object.spec.template.spec.containers.all(c, object.spec.template.spec.containers.all(d, d == d))"),
        "looser",
    ),
    (
        "what a deletion holds",
        unit("object.data.size() > 0", rules=[CONFIG_MAPS]),
        unit("request.operation == 'DELETE' ? false : object.data.size() > 0", rules=[CONFIG_MAPS]),
        "same",
    ),
    (
        "another condition of another name",
        unit("variables.a", variables={"a": "object.spec.replicas > 1"}),
        unit("variables.a", variables={"a": "object.spec.replicas > 2"}),
        "stricter",
    ),
]


EVERYTHING = Rule(("CREATE", "UPDATE", "DELETE"), ("*",), ("*",), ("*",))
CLAIMS_LIKE = replace(DEPLOYMENTS, api_versions=("v1beta1",))
SOMEWHERE = MatchResources(namespace_selector=labelled("env", "prod"))


def _bound(original: BoundPolicy, **changes: Any) -> BoundPolicy:
    """With other bindings."""
    return replace(original, bindings=tuple(replace(each, **changes) for each in original.bindings))


ROWS += [
    (
        "a kind that nobody thinks of, of a rule for all",
        unit("object.kind != 'StorageClass' || object.metadata.name != 'x'", rules=[EVERYTHING]),
        unit("true", rules=[EVERYTHING]),
        "looser",
    ),
    (
        "what a rule for all says of custom kinds",
        unit("object.kind != 'Certificate'", rules=[EVERYTHING]),
        unit("!(object.kind == 'Certificate')", rules=[EVERYTHING]),
        "same",
    ),
    ("another version of the same", unit(TEAM), unit(TEAM, rules=[replace(DEPLOYMENTS, api_versions=("*",))]), "same"),
    ("a version that is met as another one", unit(TEAM), unit(TEAM, rules=[CLAIMS_LIKE]), "looser"),
    ("a binding for some namespaces", unit(TEAM), _bound(unit(TEAM), match_resources=SOMEWHERE), "looser"),
    ("a binding that only warns", unit(TEAM), _bound(unit(TEAM), validation_actions=("Warn",)), "looser"),
    (
        "an update that is no creation",
        unit("request.operation == 'CREATE' || object.spec.replicas >= oldObject.spec.replicas"),
        unit("request.operation == 'CREATE' || object.spec.replicas > oldObject.spec.replicas"),
        "stricter",
    ),
    (
        "a deletion that is no creation",
        unit("request.operation != 'DELETE' || oldObject.metadata.name != 'x'", rules=[CONFIG_MAPS]),
        unit("true", rules=[CONFIG_MAPS]),
        "looser",
    ),
    (
        "the keys of a map in any order",
        unit("object.metadata.labels.filter(k, k.startsWith('x')).size() == 0"),
        unit("!object.metadata.labels.exists(k, k.startsWith('x'))"),
        "same",
    ),
]
PARAM = "object.metadata.name != params.data.name"
SAFE = "!has(params.data) || object.metadata.name != params.data.?name.orValue('')"
ONE, OTHER = (ParamRef(name, "default", parameter_not_found_action="Deny") for name in ("one", "other"))
ROWS += [
    (
        "the same parameter",
        with_params(unit(PARAM), ONE),
        with_params(unit(f"!({PARAM.replace('!=', '==')})"), ONE),
        "same",
    ),
    ("a parameter read with care", with_params(unit(PARAM), ONE), with_params(unit(SAFE), ONE), "looser"),
    ("another parameter", with_params(unit(PARAM), ONE), with_params(unit(PARAM), OTHER), "both"),
    ("a parameter more", with_params(unit(PARAM), ONE), with_params(unit(PARAM), ONE, OTHER), "stricter"),
    (
        "a parameter that need not be there",
        with_params(unit(SAFE), ONE),
        with_params(unit(SAFE), replace(ONE, parameter_not_found_action="Allow")),
        "looser",
    ),
    ("a parameter that is not read", with_params(unit(TEAM), ONE), with_params(unit(f"({TEAM}) && true"), ONE), "same"),
    (
        "a parameter of another kind",
        with_params(unit(PARAM), ONE),
        with_params(unit(PARAM), ONE, kind="Secret"),
        "both",
    ),
]


@pytest.mark.parametrize(("current", "candidate", "result"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_claim(prover: Prover, current: BoundPolicy, candidate: BoundPolicy, result: str) -> None:
    pair = Pair("policy", current, candidate)
    proof = prover.prove(pair)
    assert (proof.result.value, proof.reason) == (result, "")
    assert all(shows_difference(prover, pair, proof))


def shows_difference(prover: Prover, pair: Pair, proof: Proof) -> Iterator[bool]:
    """Whether each witness is decided as it says."""
    context = context_of(
        pair.sides.units,
        (pair.sides.current, pair.sides.candidate),
        builtin_discovery(),
        prover.skeletons,
        prover.settings.version,
    )
    for witness in proof.witnesses:
        yield context.judge.levels(witness.request) == [witness.current, witness.candidate]
        yield witness.current != witness.candidate


def test_the_candidate_in_reverse_is_the_other_way_round(prover: Prover) -> None:
    opposite = {"stricter": "looser", "looser": "stricter"}
    for name, current, candidate, result in ROWS[:5]:
        proof = prover.prove(Pair(name, candidate, current))
        assert proof.result.value == opposite.get(result, result), name


def test_what_is_not_covered_is_not_known(prover: Prover) -> None:
    versioned = replace(WIDGETS, api_versions=("v1",))
    pair = Pair(
        "policy", unit("true", rules=[versioned]), unit("true", rules=[replace(versioned, api_versions=("v1", "v2"))])
    )
    proof = prover.prove(pair)
    assert proof.result is Comparison.UNKNOWN
    assert "versions" in proof.reason


def test_what_depends_on_the_order_of_a_map_is_not_known(prover: Prover) -> None:
    first = "object.metadata.labels.map(k, k)[0] == 'a'"
    proof = prover.prove(Pair("policy", unit(first), unit(f"{first} && object.metadata.labels.size() > 0")))
    assert proof.result is Comparison.UNKNOWN
    assert "order" in proof.reason


def test_a_search_that_is_cut_short_excludes_nothing(prover: Prover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.prove.symbolic.text_language.MOST_STATES", 2)
    combinations.cache_clear()
    one, other = (f"object.metadata.name.matches('{pattern}')" for pattern in ("^(ab|cd)+$", "^((ab)|(cd))+$"))
    result = prover.prove(Pair("policy", unit(one), unit(other))).result
    combinations.cache_clear()
    assert result is Comparison.UNKNOWN


def test_costs_bound_a_claim_or_are_named_in_it(prover: Prover) -> None:
    one = "object.spec.template.spec.containers.all(c, c.image.contains('a'))"
    proof = prover.prove(Pair("policy", unit(one), unit(f"!({one.replace('.all(c, c', '.exists(c, !c')})")))
    assert proof.text.startswith("no difference")
    text = "object.spec.template.spec.containers.map(c, c.image).join(',')"
    one_text, other_text = (unit(f"variables.t != 'a'{more}", variables={"t": text}) for more in ("", " && 1 < 2"))
    assert prover.prove(Pair("policy", one_text, other_text)).text.endswith("within the cost budgets")


def test_a_policy_without_bindings_says_so(prover: Prover) -> None:
    one, other = (replace(unit(text), bindings=()) for text in (TEAM, "true"))
    assert prover.prove(Pair("policy", one, other)).text == f"no difference: {UNBOUND}"


def test_a_policy_that_is_removed_only_loosens(prover: Prover) -> None:
    assert prover.prove(Pair("policy", unit(TEAM), None)).result is Comparison.LOOSER
    assert prover.prove(Pair("policy", None, unit(TEAM))).result is Comparison.STRICTER
    assert prover.prove(Pair("policy", None, unit("true"))).result is Comparison.SAME


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_random_requests_refute_no_claim(prover: Prover, row: tuple[str, BoundPolicy, BoundPolicy, str]) -> None:
    _, current, candidate, result = row
    context = context_of(
        (current, candidate), ((current,), (candidate,)), builtin_discovery(), prover.skeletons, prover.settings.version
    )
    found = hunt(context, 150, "another seed", thorough=True)
    assert not (result in {"same", "looser"} and found.stricter)
    assert not (result in {"same", "stricter"} and found.looser)


LIST = "object.spec.l"


@pytest.mark.parametrize(
    ("policy", "size"),
    [
        (unit("object.spec.replicas <= 5"), ANY),
        (unit(f"{LIST}.all(x, x > 1)"), 100_000),
        (unit(f"{LIST}.all(x, {LIST}.all(y, x + y > 1))"), 100),
        (unit("variables.both.all(x, x > 1)", variables={"both": f"{LIST} + {LIST}"}), 30_000),
        (unit("variables.text != ''", variables={"text": f"{LIST}.join(',')"}), None),
        (unit("authorizer.group('').resource('pods').check('create').allowed()"), ANY),
        (unit(*["authorizer.group('').resource('pods').check('create').allowed()"] * 40), None),
    ],
    ids=["a number", "a list", "pairs", "a joined variable", "a grown variable", "a question", "many questions"],
)
def test_affordable_size(policy: BoundPolicy, size: int | None) -> None:
    assert affordable_size([policy], [policy.compiled(NEWEST)]) == size
