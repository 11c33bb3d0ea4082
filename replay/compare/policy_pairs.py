"""Comparison of policies that replace each other, and of the two sources of a template, on the requests of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

_NOTHING: Mapping[str, frozenset[str]] = {}


class PolicyPair(Struct, frozen=True):
    """Policies of the baseline, and the policies of the candidate that replace them.

    `guessed` is what they have in common, if neither a file nor equal names pair them.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    guessed: str = ""

    @property
    def title(self) -> str:
        """Both sides on one line."""
        return f"{', '.join(self.old) or 'nothing'} → {', '.join(self.new) or 'nothing'}"


class DifferingRequest(Struct, frozen=True):
    """A request that the two sides decide differently, with the text of the denial."""

    id: str
    request: str
    message: str


class PairComparison(Struct):
    """Comparison of the decisions of both sides over the requests of a log."""

    pair: PolicyPair
    both: int = 0
    undetermined: int = 0
    old_only: list[DifferingRequest] = field(default_factory=list)
    new_only: list[DifferingRequest] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether the sides decide any request differently."""
        return bool(self.old_only or self.new_only)


def paired(
    old: Iterable[str],
    new: Iterable[str],
    written: Iterable[PolicyPair] = (),
    matched: Mapping[str, frozenset[str]] = _NOTHING,
) -> tuple[PolicyPair, ...]:
    """Return the pairs of policies.

    First come the `written` pairs. The others are paired by equal names, with all rules of a policy together. Next,
    policies are paired with the rule `POLICY-RULE` whose name they have. Last, policies are paired that are the only
    ones on their side for some resources, which `matched` has by policy. A policy without a counterpart is a pair with
    nothing.
    """
    pairs = list(written)
    taken = {name for pair in pairs for name in (*pair.old, *pair.new)}
    left = [name for name in dict.fromkeys(old) if name not in taken]
    right = [name for name in dict.fromkeys(new) if name not in taken]
    same = set(map(_own_name, left)) & set(map(_own_name, right))
    groups = dict.fromkeys(map(_own_name, left))
    found = [PolicyPair(_named(left, group), _named(right, group)) for group in groups if group in same]
    rest = [name for name in left if _own_name(name) not in same]
    free = [name for name in right if _own_name(name) not in same]
    found += _named_after_rules(rest, free)
    found += _matching(_without(rest, found), _without(free, found), matched)
    ours, theirs = _without(rest, found), _without(free, found)
    groups = dict.fromkeys(map(_own_name, (*ours, *theirs)))
    found += [PolicyPair(_named(ours, group), _named(theirs, group)) for group in groups]
    order = {name: number for number, name in enumerate((*left, *right))}
    return (*pairs, *sorted(found, key=lambda pair: min(order[name] for name in (*pair.old, *pair.new))))


def _named(names: Iterable[str], group: str) -> tuple[str, ...]:
    return tuple(name for name in names if _own_name(name) == group)


def _without(names: Iterable[str], pairs: Iterable[PolicyPair]) -> list[str]:
    taken = {name for pair in pairs for name in (*pair.old, *pair.new)}
    return [name for name in names if name not in taken]


def _named_after_rules(old: Sequence[str], new: Sequence[str]) -> list[PolicyPair]:
    """Return the pairs of a rule and the policies named after it, as `replay check --migrate` names them.

    Such a name begins with the names of the policy and the rule. The longest name decides: `a-b-c` is named after the
    rule `c` of `a-b`, not after `b` of `a`.
    """
    titles = {name: f"{_own_name(name)}-{name.rpartition('/')[2]}".lower() for name in old if _has_rule(name)}
    after: dict[str, list[str]] = {}
    for name in new:
        own = _own_name(name)
        fitting = [each for each, title in titles.items() if own == title or own.startswith(f"{title}-")]
        if fitting:
            after.setdefault(max(fitting, key=lambda each: len(titles[each])), []).append(name)
    return [PolicyPair((name,), tuple(after[name]), "the name of the rule") for name in old if name in after]


def _matching(old: Sequence[str], new: Sequence[str], matched: Mapping[str, frozenset[str]]) -> list[PolicyPair]:
    """Return the pairs of policies that are the only ones on their side for some resources."""
    by_resources: dict[frozenset[str], tuple[list[str], list[str]]] = {}
    for index, side in enumerate((old, new)):
        for name in side:
            if matched.get(name):
                by_resources.setdefault(matched[name], ([], []))[index].append(name)
    return [
        PolicyPair(tuple(ours), tuple(theirs), "the resources that they match")
        for ours, theirs in by_resources.values()
        # Several rules of one policy count as one.
        if len(set(map(_own_name, ours))) == len(set(map(_own_name, theirs))) == 1
    ]


def _has_rule(name: str) -> bool:
    return name.partition("/")[0] in ("ClusterPolicy", "Policy")


def _own_name(name: str) -> str:
    """Return the name of a policy without its kind, its rule, and the suffix of a static native policy."""
    kind, _, rest = name.partition("/")
    if not rest:
        return kind.removesuffix(".static.k8s.io")
    parts = rest.split("/")
    return parts[-2] if _has_rule(name) and len(parts) > 1 else parts[-1]


def is_denied_by(policies: Sequence[str], names: Collection[str]) -> bool:
    """Return whether any policy of a side is among those that deny."""
    return any(each in names for each in policies)


class SourceAnswers(Struct, frozen=True):
    """One request with the denial messages of each source. `unknown` says why one is undecided."""

    id: str
    request: str
    rego: tuple[str, ...]
    cel: tuple[str, ...]
    unknown: str = ""

    @property
    def differs(self) -> bool:
        """Whether exactly one source denies the request."""
        return not self.unknown and bool(self.rego) is not bool(self.cel)

    @property
    def is_reworded(self) -> bool:
        """Whether both sources deny the request with different messages."""
        return not self.unknown and bool(self.rego and self.cel) and self.rego != self.cel


class SourceComparison(Struct, frozen=True):
    """Comparison of both sources. `unlike` are the requests with different answers."""

    templates: tuple[str, ...]
    requests: int
    denied: int
    """Number of requests that both sources deny with the same messages."""
    reworded_answers: tuple[SourceAnswers, ...] = field(default_factory=tuple)

    @property
    def differing(self) -> tuple[SourceAnswers, ...]:
        """The requests that the sources decide differently."""
        return tuple(each for each in self.reworded_answers if each.differs)

    @property
    def reworded(self) -> tuple[SourceAnswers, ...]:
        """The requests that both sources deny with different messages."""
        return tuple(each for each in self.reworded_answers if each.is_reworded)

    @property
    def undetermined(self) -> tuple[SourceAnswers, ...]:
        """The requests that cannot be decided."""
        return tuple(each for each in self.reworded_answers if each.unknown)


def comparison(templates: Sequence[str], answers: Iterable[SourceAnswers]) -> SourceComparison:
    """Return the comparison of all answers, in their order."""
    requests = denied = 0
    unlike = []
    for each in answers:
        requests += 1
        if each.unknown or each.rego != each.cel:
            unlike.append(each)
        elif each.rego:
            denied += 1
    return SourceComparison(tuple(templates), requests, denied, tuple(unlike))
