"""`replay can-i`: a set's decisions about new authorization requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
from msgspec import Struct

from replay.authorization.case import AccessQuestion, AttributesError, answer_line, attributes_from_case, attributes_of
from replay.authorization.chain import AuthorizerChain
from replay.authorization.chains import Chains, sides, webhook_names
from replay.authorization.configuration import AuthorizationConfiguration
from replay.authorization.manifest import NOTHING, dangling_bindings, load_authorization
from replay.authorization.trace import Authorization
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.discovery import Discovery
from replay.kube.rbac import RBAC_KINDS
from replay.pipeline.authorization.run import named_answers
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

_END = 2**62


class AuthorizationScenario(Struct, frozen=True):
    """The set and the cluster that decide."""

    current: Path | None
    cluster: Path | None
    webhooks: tuple[str, ...] = ()
    version: str = str(NEWEST)
    default: AuthorizationConfiguration | None = None


class Oracle(Struct, frozen=True):
    """Authorizer chain of a set, resources of its cluster, and warnings about its RBAC."""

    chain: AuthorizerChain
    discovery: Discovery
    warnings: tuple[str, ...]


def load_oracle(scenario: AuthorizationScenario) -> Oracle:
    """Load the set and the cluster. Raise ReplayError if there is neither, or if they are unusable."""
    version = KubernetesVersion.parse(scenario.version)
    manifests = load_authorization(scenario.current, version) if scenario.current is not None else NOTHING
    if scenario.current is not None and not scenario.current.exists():
        raise ReplayError("no such file or directory", path=str(scenario.current))
    if manifests.unseen:
        raise ReplayError(f"{manifests.unseen}: put it there, under its name")
    if manifests.is_empty and scenario.current is not None and not scenario.current.is_dir():
        raise ReplayError("neither an AuthorizationConfiguration nor RBAC objects", path=str(scenario.current))
    if manifests.is_empty and scenario.cluster is None:
        raise ReplayError("no set: give --current with authorization.yaml or rbac/, or --cluster", path="--current")
    cluster = Cluster(read_snapshot(scenario.cluster) if scenario.cluster is not None else [])
    side = sides((manifests, NOTHING), scenario.default)[0] if scenario.default else sides((manifests, NOTHING))[0]
    answers = named_answers(scenario.webhooks, webhook_names([side.configuration]))
    chains = Chains(cluster, [side], answers, (version,), log_start=_END)
    role_keys = [key[1:] for kind in RBAC_KINDS for key in cluster.keys(kind)]
    warnings = dangling_bindings(manifests.rbac or (), role_keys) if manifests.rbac else ()
    chain = chains.at(_END, _END, chains.state_of(_END, _END, with_graph=True))[0]
    return Oracle(chain, cluster.discovery, tuple(warnings))


def answer_cases(oracle: Oracle, cases: Path, out: Path) -> int:
    """Write one line for each case, in order, and return their number.

    Raise ReplayError with file and line for an invalid case.
    """
    lines = list(_answers(oracle, cases))
    out.write_bytes(b"".join(lines))
    return len(lines)


def _answers(oracle: Oracle, cases: Path) -> Iterator[bytes]:
    lines_of_answers: dict[bytes, bytes] = {}
    for number, line in numbered_lines(cases):
        if line not in lines_of_answers:
            attributes = _attributes(cases, number, line)
            value = answer_line(attributes, oracle.chain.decide(attributes))
            lines_of_answers[line] = orjson.dumps(value, default=str) + b"\n"
        yield lines_of_answers[line]


def _attributes(path: Path, number: int, line: bytes) -> AuthorizationAttributes:
    """Return the attributes of a case: the line's object itself, or its field `attributes`."""
    try:
        value = orjson.loads(line)
        return attributes_from_case(value["attributes"] if isinstance(value, dict) and "attributes" in value else value)
    except (orjson.JSONDecodeError, AttributesError) as error:
        raise ReplayError(f"no case: {error}", path=str(path), line=number) from error


def ask(oracle: Oracle, question: AccessQuestion) -> tuple[AuthorizationAttributes, Authorization]:
    """Return the attributes that the server would see, and the decision.

    Raise ReplayError for an unusable question.
    """
    attributes = attributes_of(question, oracle.discovery)
    return attributes, oracle.chain.decide(attributes)
