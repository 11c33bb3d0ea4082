"""Results kept beside a store, so that a changed candidate costs only the changed part.

A run with a kept store saves its findings for each class of requests (verb, group, resource, subresource). The file
name is a digest of the policies and webhooks that may match the class, in both sets. A later run over the same log,
snapshot, version and code reuses every class with a saved digest.

For other classes it uses the requests as they reached the validating phase. They are saved under a digest of everything
that acts before that phase. The run decides them again, or only those that the last candidate decides differently
(`difference`). Only the rest is replayed.

The consequences depend on all classes together. They are saved under a digest of both sets, and object by object
(`kept_walk`). So is the outcome of the run, which a run with the same sets reads alone. INVARIANT: the result equals that of a run without a store, to the byte.
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from replay.admission.ordered.plugin import Unit
from replay.admission.ordered.registry import (
    MUTATING_PLUGINS,
    POLICY_PLUGINS,
    looked_up_kinds,
    units_of,
)
from replay.audit.directory import code_digest
from replay.audit.place import LogPosition
from replay.compare.fidelity import Fidelity
from replay.compare.result import WorldFacts
from replay.compare.summary import Summary
from replay.errors import StoreError
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    Registration,
    Sets,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    in_order,
)
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.kept_input import UNKEEPABLE
from replay.pipeline.replay.replayer import Pending
from replay.pipeline.replay.spool import ClassResult, Totals
from replay.pipeline.replay.world import World
from replay.storage.storage import Storage
from replay.world.result import Consequence, numbered

RESULTS = "results"
MOST_LOGS = 4
"""Number of states of log, snapshot and code for which a store keeps results. The oldest are removed first."""
MOST_SETS = 8
"""Number of pairs of sets for which the results of one class are kept."""
LEAST_SECONDS = 3600
"""Seconds for which results are kept after a run has read them."""
MOST_REQUEST_SETS = 2
"""Number of mutating phases for which the requests of one class are kept."""
REQUEST_FILE_BYTES = 16 * 1024 * 1024
"""Bytes after which a new file of kept requests begins."""
_REQUESTS = "-met"
"""End of the first part of such a file's name, before its number."""
_CHECK = 32
_LENGTH = 8
_CHUNK = 500


class KeptResults(Struct, frozen=True):
    """The results of a store for two sets: a file for each class of requests of the log, which may not exist.

    `classes` are the numbers of requests by class, `files` the names of the files. `mutated` are the names of the files of
    requests that reached the validating phase, with `{}` for the number. `outcome` names the file of the run's outcome,
    `world` that of the consequences, `walks` that of the walks, `policies` that of the validating policies of the last `candidate`. `with_candidate` returns
    the results for another candidate. Only policies act on the classes `decided_by_policies`, whose requests are about
    one object each.
    """

    storage: Storage
    classes: Mapping[CoarseClass, int]
    files: dict[CoarseClass, str]
    kept_requests: dict[CoarseClass, str]
    outcome: str
    world: str
    walks: str
    policies: str
    decided_by_policies: frozenset[CoarseClass]
    candidate: ManifestSet
    with_candidate: Callable[[ManifestSet], KeptResults]

    def read_outcome(self) -> RunOutcome | None:
        """Return the outcome of a run with these sets, None if its file is absent or damaged."""
        try:
            return _OUTCOME.decode(_whole(self.storage, self.outcome))
        except (OSError, msgspec.MsgspecError):
            return None

    def write_outcome(self, outcome: RunOutcome) -> None:
        """Save the outcome of a run, if possible. All findings must be in it."""
        with suppress(OSError, *UNKEEPABLE):
            _put(self.storage, self.outcome, msgspec.msgpack.encode(outcome))

    def read(self) -> dict[CoarseClass, ClassResult]:
        """Return all whole results."""
        results_by_class = ((requests, _read(self.storage, name)) for requests, name in self.files.items())
        return {requests: result for requests, result in results_by_class if result is not None}

    def write(self, results: dict[CoarseClass, ClassResult]) -> None:
        """Keep the results of classes, if possible."""
        try:
            for requests, result in results.items():
                if (content := _content(result)) is not None:
                    _put(self.storage, self.files[requests], content)
        except OSError:
            return  # a read-only store still works, only more slowly

    def read_requests(self, classes: Iterable[CoarseClass]) -> dict[CoarseClass, KeptClass]:
        """Return the requests of classes that reached the validating phase, if their files exist and are intact."""
        mutated = ((requests, self._read_requests(requests)) for requests in classes if requests in self.kept_requests)
        return {requests: each for requests, each in mutated if each is not None}

    def _read_requests(self, requests: CoarseClass) -> KeptClass | None:
        name = self.kept_requests[requests]
        try:
            checks, settled, *blocks = _frames(_whole(self.storage, name.format(0)))
            for number, start in enumerate(range(0, len(checks), _CHECK), 1):
                content = _whole(self.storage, name.format(number))
                if _check(name, content) != checks[start : start + _CHECK]:
                    return None  # another run was killed while it wrote
                blocks += _frames(content)
            totals, divergence, *findings = _frames(settled)
            result = ClassResult(
                _TOTALS.decode(totals),
                lambda: (pending for chunk in findings for pending in _PENDING.decode(chunk)),
                lambda: _BEGINNING.decode(divergence),
            )
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        return KeptClass(result, blocks)

    def read_earlier(self, classes: Collection[CoarseClass]) -> Earlier | None:
        """Return the candidate with the last validating policies, and its results for some classes."""
        try:
            policies = _POLICIES.decode(_whole(self.storage, self.policies))
        except (OSError, msgspec.MsgspecError):
            return None
        candidate = replace(
            self.candidate, registrations=in_order((*self.candidate.filtered(_is_other).registrations, *policies))
        )
        kept = self.with_candidate(candidate)
        alike = {
            each
            for each in self.decided_by_policies.intersection(classes)
            if kept.kept_requests.get(each) == self.kept_requests[each]
        }
        names = {requests: kept.files[requests] for requests in alike}
        results = {requests: _read(self.storage, name) for requests, name in names.items()}
        return Earlier(candidate, {requests: each for requests, each in results.items() if each is not None})

    def write_policies(self) -> None:
        """Save the validating policies of the candidate, if possible. The next run compares its own with them."""
        policies = [each for each in self.candidate.registrations if not _is_other(each)]
        with suppress(OSError, *UNKEEPABLE):
            _put(self.storage, self.policies, msgspec.msgpack.encode(policies))

    def write_requests(self, mutated: Mapping[CoarseClass, KeptClass]) -> None:
        """Save the requests of classes that reached the validating phase, if possible."""
        with suppress(OSError):
            for requests, (settled, blocks) in mutated.items():
                if requests in self.kept_requests and (content := _content(settled)) is not None:
                    self._put_requests(self.kept_requests[requests], content, blocks)

    def _put_requests(self, name: str, settled: bytes, blocks: Iterable[bytes]) -> None:
        files: list[list[bytes]] = [[settled]]
        for block in blocks:
            if sum(map(len, files[-1])) >= REQUEST_FILE_BYTES:
                files.append([])
            files[-1].append(block)
        others = list(map(_framed, files[1:]))
        for number, content in enumerate(others, 1):
            _put(self.storage, name.format(number), content)
        # The first file is written last, because it has the checks of the others.
        checks = b"".join(_check(name, content) for content in others)
        _put(self.storage, name.format(0), _framed([checks, *files[0]]))

    def read_world(self) -> World | None:
        """Return the consequences, None if their file is absent or damaged."""
        try:
            world_kept = _WORLD.decode(_whole(self.storage, self.world))
        except (OSError, msgspec.MsgspecError):
            return None
        world = World(
            {}, world_kept.collections, refused=world_kept.refused, denied_in_both=Counter(world_kept.denied_in_both)
        )
        for seq, item, end in world_kept.places:
            world.put(LogPosition(seq, item), world_kept.ends[end])
        return world

    def read_walks(self) -> bytes | None:
        """Return the walks of the last run that walked, None if their file is absent or damaged."""
        try:
            return _whole(self.storage, self.walks)
        except OSError:
            return None

    def write_world(self, world: World, walks: bytes | None) -> None:
        """Save the consequences and their walks, if possible."""
        ends, number_of = numbered(world.ends.values())
        places = [(place.seq, place.item, number_of[id(each)]) for place, each in world.consequences()]
        world_to_keep = _World(ends, places, world.collections, world.refused, dict(world.denied_in_both))
        # A read-only store still works, only more slowly.
        with suppress(OSError, *UNKEEPABLE):
            if walks is not None:
                _put(self.storage, self.walks, walks)
            _put(self.storage, self.world, msgspec.msgpack.encode(world_to_keep))

    def forget_oldest(self) -> None:
        """Remove the oldest results, if possible, once all that are needed have been read."""
        with suppress(OSError):
            _forget(self.storage, (*self.files.values(), self.world))


class RunOutcome(NamedTuple):
    """What a run found in all requests together."""

    summary: Summary
    fidelity: Fidelity
    world: WorldFacts


class KeptClass(NamedTuple):
    """The requests of a class that reached the validating phase, in `blocks`, and the result of all others."""

    settled: ClassResult
    blocks: Iterable[bytes]


class Earlier(NamedTuple):
    """The candidate of an earlier run, which differs in validating policies alone, and its results for some classes."""

    candidate: ManifestSet
    results: Mapping[CoarseClass, ClassResult]


_Validating = ValidatingAdmissionPolicy | ValidatingAdmissionPolicyBinding


def _is_other(registration: Registration) -> bool:
    return not isinstance(registration, _Validating)


class _World(NamedTuple):
    """A `World` in the form of a file: without lines, since runs with lines save nothing.

    `places` are the sequence number of a request, the number of its item, and the index of its end in `ends`.
    """

    ends: list[Consequence]
    places: list[tuple[int, int, int]]
    collections: dict[int, Consequence]
    refused: list[int]
    denied_in_both: dict[str, int]


def kept_results(  # noqa: PLR0913 - what results depend on
    storage: Storage,
    base: Sequence[str | bytes],
    sets: Sets,
    classes: Mapping[CoarseClass, int],
    selector: Callable[[MatchResources], Callable[[CoarseClass], bool]],
    *,
    keeps_requests: bool,
) -> KeptResults:
    """Return a store's results for two sets. `base` is everything else that they depend on, except this code.

    `selector` returns, for criteria, a function that says whether they may match a class. `keeps_requests` says that
    requests are kept as they reach the validating phase.
    """
    place = f"{RESULTS}/{_digest(code_digest(), *base)}"
    units = [[(unit, selector(unit.match)) for unit in units_of(manifests)] for manifests in sets]
    mutating = [{unit.digest for unit in units_of(manifests, MUTATING_PLUGINS)} for manifests in sets]
    # The plugins that run decide what the object before mutation is.
    before = repr([sorted((each.name, each.admits) for each in manifests.builtin) for manifests in sets])
    looked_up = repr(sorted(frozenset[tuple[str, str]]().union(*map(looked_up_kinds, sets))))
    policies = [{unit.digest for unit in units_of(manifests, POLICY_PLUGINS)} for manifests in sets]
    files, mutated, decided_by_policies = {}, {}, set()
    for requests in classes:
        acting = [[unit for unit, selects in each if selects(requests)] for each in units]
        own = _digest(*astuple(requests))
        files[requests] = f"{place}/{own}.{_digest(*(_joined(each) for each in acting))}"
        if keeps_requests and any(acting):
            changing = (
                _joined(unit for unit in each if unit.digest in digests)
                for each, digests in zip(acting, mutating, strict=True)
            )
            if requests.verb != "deletecollection" and all(
                unit.digest in digests for each, digests in zip(acting, policies, strict=True) for unit in each
            ):
                decided_by_policies.add(requests)
            mutated[requests] = (
                f"{place}/{own}{_REQUESTS}{{}}.{_digest(*changing, _selection(acting), before, looked_up)}"
            )
    # A candidate may lead to requests of classes that the log does not have.
    both = _digest(*(_joined(unit for unit, _ in each) for each in units))
    return KeptResults(
        storage,
        classes,
        files,
        mutated,
        f"{place}/outcome.{both}",
        f"{place}/world.{both}",
        f"{place}/walks",
        f"{place}/policies",
        frozenset(decided_by_policies),
        sets[1],
        lambda other: kept_results(storage, base, (sets[0], other), classes, selector, keeps_requests=keeps_requests),
    )


def _joined(units: Iterable[Unit]) -> str:
    return "\0".join(unit.digest for unit in units)


def _selection(acting: Iterable[Iterable[Unit]]) -> str:
    """Return the selection of the coarse predicate within a class: empty for all of it, unless it reads names."""
    matches = [unit.match for each in acting for unit in each]
    return repr(matches) if any(rule.resource_names for match in matches for rule in match.resource_rules) else ""


def forget(storage: Storage) -> None:
    """Remove all results of a store, because its log has changed."""
    storage.remove(RESULTS)


def _read(storage: Storage, name: str) -> ClassResult | None:
    """Return a class's result if its file is whole."""
    try:
        totals = _TOTALS.decode(next(_frames(_whole(storage, name))))
    except (OSError, StopIteration, msgspec.MsgspecError):
        return None
    return ClassResult(totals, lambda: _findings(storage, name), lambda: _divergence(storage, name))


def _whole(storage: Storage, name: str) -> bytes:
    """Return a file's checked content, because nothing is flushed on writing. Raise OSError if it is damaged."""
    content = storage.read(name)
    if _check(name, content[_CHECK:]) != content[:_CHECK]:
        raise OSError(errno.EIO, "results are damaged", name)
    with suppress(OSError):  # a read-only store keeps old results
        storage.touch(name)
    return content[_CHECK:]


def _put(storage: Storage, name: str, content: bytes) -> None:
    """Write a file with its check value."""
    storage.put(name, _check(name, content) + content)


def _check(name: str, content: bytes) -> bytes:
    """Return a digest of results and their key, so that a misplaced file counts as damaged."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _findings(storage: Storage, name: str) -> Iterator[Pending]:
    """Yield the findings of a file that was intact a moment ago."""
    # The first two frames are the totals and the divergence.
    for frame in islice(_reread(storage, name), 2, None):
        yield from _PENDING.decode(frame)


def _divergence(storage: Storage, name: str) -> Divergence:
    """Return the divergence in a file that was whole a moment ago."""
    return _BEGINNING.decode(next(islice(_reread(storage, name), 1, None)))


def _reread(storage: Storage, name: str) -> Iterator[bytes]:
    """Return the frames of a file that was intact a moment ago."""
    try:
        return _frames(storage.read(name)[_CHECK:])
    except OSError as error:
        raise StoreError(f"results were forgotten while they were read ({error.strerror}): run again") from error


def _content(result: ClassResult) -> bytes | None:
    """Return a file's content after its check: frames with their lengths, None if it cannot be encoded.

    The frames are the totals, the divergence, and the findings in chunks.
    """
    try:
        findings = result.findings()
        # `iter` with a sentinel: an empty chunk ends the findings.
        chunks = iter(lambda: list(islice(findings, _CHUNK)), [])
        frames = list(map(msgspec.msgpack.encode, (result.totals, result.divergence(), *chunks)))
    except UNKEEPABLE:
        return None
    return _framed(frames)


def _framed(frames: Iterable[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(_LENGTH, "big") + frame for frame in frames)


def _frames(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        end = start + _LENGTH + int.from_bytes(content[start : start + _LENGTH], "big")
        yield content[start + _LENGTH : end]
        start = end


def _counter(kind: Any, value: object) -> object:
    """Return a `Counter`, which msgspec cannot decode itself."""
    if get_origin(kind) is not Counter:
        raise NotImplementedError(f"no values of {kind} are kept")
    return Counter(msgspec.convert(value, dict[get_args(kind)[0], int]))  # type: ignore[misc]


_OUTCOME = msgspec.msgpack.Decoder(RunOutcome, dec_hook=_counter)
_TOTALS = msgspec.msgpack.Decoder(Totals, dec_hook=_counter)
_BEGINNING = msgspec.msgpack.Decoder(Divergence)
_PENDING = msgspec.msgpack.Decoder(list[Pending])
_WORLD = msgspec.msgpack.Decoder(_World)
_POLICIES = msgspec.msgpack.Decoder(tuple[_Validating, ...])


def _forget(storage: Storage, names: Iterable[str]) -> None:
    """Remove superseded results: those of other logs and snapshots, and of other sets."""
    used = time.time() - LEAST_SECONDS
    own = {name.rpartition("/")[0] for name in names}
    logs: dict[str, float] = {}
    of_classes: dict[str, dict[str, float]] = {}
    for entry in storage.entries(f"{RESULTS}/"):
        place = entry.name.rpartition("/")[0]
        logs[place] = max(logs.get(place, 0.0), entry.modified)
        if place in own:
            of_classes.setdefault(entry.name.partition(".")[0], {})[entry.name] = entry.modified
    for name in _oldest(logs, MOST_LOGS, used):
        storage.remove(name)
    for group, alike in of_classes.items():
        # Kept requests are read at once, because the files may be removed later.
        most, since = (MOST_REQUEST_SETS, time.time()) if _REQUESTS in group else (MOST_SETS, used)
        for name in _oldest(alike, most, since):
            storage.remove(name)


def _oldest(modified: Mapping[str, float], most: int, used: float) -> list[str]:
    """Return all but the newest files, without recently used ones (seconds since the epoch)."""
    ordered = sorted(((time_used, name) for name, time_used in modified.items()), reverse=True)
    return [name for time_used, name in ordered[most:] if time_used < used]


def _digest(*parts: str | bytes) -> str:
    hash_ = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        # The length keeps apart parts that are only divided differently.
        hash_.update(len(content).to_bytes(8, "big") + content)
    return hash_.hexdigest()[:24]
