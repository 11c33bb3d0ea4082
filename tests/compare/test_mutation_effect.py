from __future__ import annotations

from replay.admission.decision import Decision, Mutated, Verdict
from replay.compare.effect import mutation_causes, patch_shape


def mutated(policy: str, *paths: str) -> Mutated:
    return Mutated(policy, "b", tuple({"op": "add", "path": path, "value": 1} for path in paths))


def test_causes_are_what_differs_between_the_sets() -> None:
    current = Decision(Verdict.ADMITTED, mutated=(mutated("same", "/a"), mutated("gone", "/b")))
    candidate = Decision(
        Verdict.ADMITTED, mutated=(mutated("same", "/a"), mutated("new", "/c/0/d", "/c/1/d"), mutated("new", "/e"))
    )
    assert mutation_causes(current, candidate) == (("new", ("add /c/*/d", "add /e")), ("gone", ("add /b",)))


def test_patch_shape() -> None:
    patch = [{"op": "add", "path": "/a/-"}, {"op": "add", "path": "/a/12"}, {"op": "remove", "path": "/b~1c"}]
    assert patch_shape(patch) == ("add /a/*", "remove /b~1c")
