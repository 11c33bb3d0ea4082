"""One trial: a log, a snapshot or a set with changed parts goes through commands, which must answer or refuse it in one line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import yaml
from typer.testing import CliRunner

from replay.admission.builtin.registry import BY_NAME
from replay.cli.app import app
from replay.errors import ReplayError
from tests.robustness.mutated import Document, changed, changed_lines

_FORMS = ("case", "review", "kat", "kyverno", "kubectl")
_SIDES = ("current", "candidate")
_LOOKED_UP = frozenset(
    (
        "namespaces",
        "customresourcedefinitions",
        "clusterroles",
        "roles",
        "clusterrolebindings",
        "rolebindings",
        "limitranges",
    )
)
"""What a decision about another object may depend on."""

Identity = tuple[str, str, str, str]


@dataclass(frozen=True)
class Base:
    """The log, snapshot and sets that are changed; `directory` holds them as they are."""

    directory: Path
    events: Sequence[Document]
    cluster: Sequence[Document]
    manifests: Sequence[Path]

    @cached_property
    def no_configuration(self) -> Path:
        """What `replay plugin` is given where a plugin is asked as it is by default."""
        path = self.directory / "plugin.yaml"
        path.write_text("{}", encoding="utf-8")
        return path

    @cached_property
    def outcomes(self) -> dict[tuple[str, int], Document]:
        """What `replay run` gives for the log as it is."""
        log, snapshot = self.directory / "base.jsonl", self.directory / "base-cluster.jsonl"
        log.write_bytes(b"\n".join(map(orjson.dumps, self.events)))
        snapshot.write_bytes(b"\n".join(map(orjson.dumps, self.cluster)))
        found = self.run(log, snapshot, self.directory / "candidate", self.directory / "base-outcomes.jsonl")
        assert found is not None
        return found

    def run(self, log: Path, snapshot: Path, candidate: Path, lines: Path) -> dict[tuple[str, int], Document] | None:
        """The lines of `--outcomes`, None where the input was refused."""
        lines.unlink(missing_ok=True)
        options = ["--current", self.directory / "current", "--candidate", candidate, "--cluster", snapshot]
        code = invoke("run", log, *options, "--outcomes", lines, "--workers", 1)
        if code > 1:
            return None
        found = map(orjson.loads, lines.read_bytes().splitlines())
        return {(line["auditID"], line.get("item", 0)): line for line in found}


def invoke(*arguments: object) -> int:
    """Run a command in this process: its exit code. Raises AssertionError for an error that is not told in one line."""
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    error = done.exception
    if error is None or isinstance(error, SystemExit):
        assert done.exit_code in (0, 1, 2), f"exit code {done.exit_code} of {arguments}\n{done.output[-2000:]}"
        return done.exit_code
    if isinstance(error, ReplayError):
        assert "\n" not in str(error), f"{str(error)!r} has several lines: {arguments}"
        return error.exit_code
    trace = "".join(traceback.format_exception(error))
    raise AssertionError(f"a traceback of {' '.join(map(str, arguments))}\n{trace[:400]} ...\n{trace[-3000:]}")


@dataclass
class Tried:
    """How much was tried; `differences` are verdicts of untouched requests that changed."""

    runs: int = 0
    events: int = 0
    objects: int = 0
    manifests: int = 0
    refused: int = 0
    gaps: int = 0
    compared: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """All numbers in one line."""
        return (
            f"{self.runs} commands over {self.events} changed events, {self.objects} objects of the snapshot and "
            f"{self.manifests} manifests; {self.refused} inputs refused in one line; {self.compared} untouched requests "
            f"compared, {self.gaps} verdicts open for a gap in the log, {len(self.differences)} different"
        )


def try_events(base: Base, random: Random, directory: Path, tried: Tried) -> None:
    """Change some events: no command ends in a traceback, and all other requests are decided as before."""
    chosen = random.sample(range(len(base.events)), random.choice((1, 10, 40, 100)))
    lines = changed_lines(random, base.events, chosen)
    log = directory / "changed.jsonl"
    log.write_bytes(b"\n".join(lines))
    snapshot = base.directory / "base-cluster.jsonl"
    tried.events += len(chosen)
    found = base.run(log, snapshot, base.directory / "candidate", directory / "outcomes.jsonl")
    tried.runs += 1
    tried.refused += found is None
    if found is not None:
        _compare(base, found, [(base.events[index], lines[index]) for index in chosen], tried)
    _ask(base, random, log, directory, tried)


def _compare(
    base: Base, found: dict[tuple[str, int], Document], touched: Sequence[tuple[Document, bytes]], tried: Tried
) -> None:
    """Add the untouched requests whose verdicts differ but for gaps in the log."""
    identities = set(_identities(touched))
    ids = {event["auditID"] for event, _ in touched}
    everywhere = any(resource in _LOOKED_UP for _, resource, _, _ in identities)
    for key, before in base.outcomes.items():
        if key[0] in ids or any(_is_of(before, each) for each in identities):
            continue
        after = found.get(key)
        tried.compared += 1
        if after is None:
            tried.differences.append(f"{key} is gone")
            continue
        for side in _SIDES:
            old, new = _alone(before[side]), _alone(after[side])
            if new == old:
                continue
            if new["verdict"] == "undetermined" or _is_no_longer_certain(old, new):
                tried.gaps += 1
            elif not everywhere:
                tried.differences.append(f"{key} {side}: {old} became {new}")


def _alone(decision: Document) -> Document:
    """The decision about the request alone: how it ends in the other world depends on others, touched ones among them."""
    return {name: value for name, value in decision.items() if name != "result"}


def _is_no_longer_certain(before: Document, after: Document) -> bool:
    """Whether a request that never came to the policies may have, who would admit it either way: a gap in the log as well."""
    return (before["verdict"], after["verdict"]) == ("not_reached", "admitted") and not after["patch"]


def _identities(touched: Sequence[tuple[Document, bytes]]) -> Iterator[Identity]:
    for before, line in touched:
        yield from _identity(before)
        for text in line.splitlines():
            try:
                yield from _identity(orjson.loads(text))
            except orjson.JSONDecodeError:
                continue


def _identity(event: Any) -> Iterator[Identity]:
    reference = event.get("objectRef") if isinstance(event, dict) else None
    if not isinstance(reference, dict):
        return
    named = [reference.get("name")]
    for body in ("requestObject", "responseObject"):
        metadata = event[body].get("metadata") if isinstance(event.get(body), dict) else None
        named.append(metadata.get("name") if isinstance(metadata, dict) else None)
    for name in named:
        parts = (
            reference.get("apiGroup", ""),
            reference.get("resource", ""),
            reference.get("namespace", ""),
            name or "",
        )
        yield tuple(map(str, parts))  # type: ignore[misc]


def _is_of(line: Document, identity: Identity) -> bool:
    """Whether an outcome is about an object; one without a name may be any of its kind."""
    group, resource, namespace, name = identity
    about = line["resource"]
    if (about["group"], about["resource"]) != (group, resource):
        return resource == "namespaces" and name in (line["namespace"], "")
    return (not name or not line["name"] or line["name"] == name) and (not namespace or line["namespace"] == namespace)


def _ask(base: Base, random: Random, log: Path, directory: Path, tried: Tried) -> None:
    """Every other question, about one of the requests or objects."""
    event = random.choice(base.events)
    reference = event.get("objectRef") or {}
    about = "/".join(filter(None, (reference.get("namespace"), reference.get("name"))))
    current, candidate = base.directory / "current", base.directory / "candidate"
    sets, snapshot = ["--current", current], ["--cluster", base.directory / "base-cluster.jsonl"]
    questions: list[list[object]] = [
        ["verify", log, *sets, *snapshot, "--workers", 1],
        ["report", log, *sets, "--candidate", candidate, *snapshot, "--workers", 1, "--out", directory / "weekly"],
        ["lookup", log, *sets, *snapshot],
        ["lookup", log, *sets, "--action", random.choice(("warn", "mutate", "audit", "deny"))],
        ["explain", event["auditID"], log, *sets, "--candidate", candidate, *snapshot],
        ["timeline", reference.get("resource", "pods"), about or "none", log],
        ["mutations", log, *sets, *snapshot, "--workers", 1],
        ["coverage", log, "--candidate", candidate, *snapshot],
        ["scan", base.directory / "base-cluster.jsonl", log, "--candidate", candidate],
        ["export", event["auditID"], log, *sets, "--candidate", candidate, *snapshot, "--form", random.choice(_FORMS)],
        [
            "plugin",
            random.choice(list(BY_NAME)),
            log,
            "--config",
            base.no_configuration,
            *snapshot,
            "--out",
            directory / "out",
        ],
        ["sql", random.choice(("decisions_by_policy", "requests_by_user", "select * from request")), log, "--json"],
        ["run", log, *sets, "--candidate", candidate, "--report", directory / "report", "--workers", 1],
        ["sql", "select * from reject", log],
    ]
    for question in random.sample(questions, 2):
        invoke(*question)
        tried.runs += 1


def try_cluster(base: Base, random: Random, directory: Path, tried: Tried) -> None:
    """Change objects of the snapshot."""
    chosen = random.sample(range(len(base.cluster)), random.choice((1, 3, 10)))
    snapshot = directory / "cluster.jsonl"
    snapshot.write_bytes(b"\n".join(changed_lines(random, base.cluster, chosen)))
    tried.objects += len(chosen)
    log, candidate = base.directory / "base.jsonl", base.directory / "candidate"
    tried.refused += base.run(log, snapshot, candidate, directory / "outcomes.jsonl") is None
    invoke("scan", snapshot, "--candidate", candidate)
    tried.runs += 2


def try_manifests(base: Base, random: Random, directory: Path, tried: Tried) -> None:
    """Change one manifest: `check`, `diff`, `run` and what else takes a set refuse it, or take it."""
    path = random.choice(base.manifests)
    target = directory / "set" / path.parent.name
    target.mkdir(parents=True, exist_ok=True)
    documents = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
    changed_ones = [changed(random, document, documents) for document in documents]
    texts = [yaml.safe_dump(document).replace("raw-text-goes-here", raw) for document, raw in changed_ones]
    made = target / path.name
    made.write_text("\n---\n".join(texts), encoding="utf-8")
    tried.manifests += 1
    log, snapshot = base.directory / "base.jsonl", base.directory / "base-cluster.jsonl"
    current, changed_set = base.directory / "current", directory / "set"
    questions: list[list[object]] = [
        ["check", changed_set],
        ["diff", current, changed_set],
        ["run", log, "--current", current, "--candidate", changed_set, "--cluster", snapshot, "--workers", 1],
    ]
    if invoke(*questions[0]) < 2:
        invoke(*questions[random.randrange(1, 3)])
        tried.runs += 1
    tried.runs += 1
    made.unlink()


def base_of(directory: Path, sample: Path, *, most: int = 4) -> Base:
    """A log with one object of each class of histories that the sample has, and its sets."""
    text = _decompressed(sample / "audit.jsonl.zst")
    events = [orjson.loads(line) for line in text.splitlines()]
    objects: dict[Identity, list[Document]] = {}
    for event in events:
        for identity in [*_identity(event)][:1]:
            objects.setdefault(identity, []).append(event)
    classes: dict[frozenset[tuple[str, str, str]], list[Document]] = {}
    for history in sorted(objects.values(), key=len):
        kind = frozenset(
            (e["verb"], e["objectRef"].get("resource", ""), e["objectRef"].get("subresource", "")) for e in history
        )
        if any(verb not in ("get", "list", "watch") for verb, _, _ in kind):
            classes.setdefault(kind, history)
    chosen = {event["auditID"] for history in classes.values() for event in history[: most * 10]}
    cluster = [orjson.loads(line) for line in _decompressed(sample / "cluster.jsonl.zst").splitlines()]
    for name in ("current", "candidate"):
        (directory / name).symlink_to(sample / name)
    manifests = sorted((sample / "candidate").glob("*/*.yaml"))
    return Base(directory, [event for event in events if event["auditID"] in chosen], cluster, manifests)


def _decompressed(path: Path) -> bytes:
    with pa.input_stream(str(path)) as stream:
        return bytes(stream.read())
