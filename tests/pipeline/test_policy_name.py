from __future__ import annotations

import pytest

from replay.errors import ReplayError
from replay.pipeline.project.focus import resolve_policy_names

TEAM, OTHER, PDB, HOOK = "team-label.static.k8s.io", "cand-team-label.static.k8s.io", "pdb-sane", "pdb-sane.example.com"
KNOWN = (TEAM, OTHER, PDB, HOOK)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(PDB, {PDB}, id="whole, though another begins so"),
        pytest.param("team-label", {TEAM}, id="without the ending of static names"),
        pytest.param("team-label…", {TEAM}, id="as a narrow terminal shows it"),
        pytest.param("TEAM-L", {TEAM}, id="the begin"),
        pytest.param("cand", {OTHER}, id="the begin of another"),
        pytest.param("example", {HOOK}, id="any part"),
        pytest.param("*team*", {TEAM, OTHER}, id="wildcards"),
    ],
)
def test_a_part_that_one_name_has_is_enough(name: str, expected: set[str]) -> None:
    assert resolve_policy_names(name, KNOWN) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "label",
            "`label` is part of 2 names; did you mean `cand-team-label.static.k8s.io` or `team-label.static.k8s.io`?",
        ),
        ("pdb-sano", "the sets have no policy `pdb-sano`; did you mean `pdb-sane`"),
        ("", "the sets have no policy ``"),
        ("x*", "the sets have no policy `x*`"),
    ],
)
def test_a_part_of_several_or_of_none_is_an_error(name: str, message: str) -> None:
    with pytest.raises(ReplayError) as error:
        resolve_policy_names(name, KNOWN)
    assert str(error.value).startswith(f"--policy: {message}")
