"""The bytes of audit annotations."""

from __future__ import annotations

from replay.admission.validating.outcome import (
    AuditAnnotationCollector,
    ValidationFailure,
    validation_failure_value,
)
from replay.cellib.version import NEWEST, KubernetesVersion


def test_failures_are_written_as_go_writes_them() -> None:
    failure = ValidationFailure('<&> "é" \\ \u2028\t\x01', "p", "b", 1, ("Warn", "Audit"))
    assert validation_failure_value([failure], NEWEST) == (
        r'[{"message":"\u003c\u0026\u003e \"é\" \\ \u2028\t\u0001","policy":"p","binding":"b","expressionIndex":1,'
        '"validationActions":["Warn","Audit"]}]'
    )


def test_at_most_fifty_failures() -> None:
    failures = [ValidationFailure(f"m{index}", "p", "b", 0, ("Audit",)) for index in range(60)]
    value = validation_failure_value(failures, NEWEST)
    assert '"m49"' in value
    assert '"m50"' not in value


def test_before_1_37_the_first_failure_alone_is_kept() -> None:
    failures = [ValidationFailure(f"m{index}", "p", "b", 0, ("Audit",)) for index in range(3)]
    assert validation_failure_value(failures, KubernetesVersion(1, 36)) == validation_failure_value(
        failures[:1], NEWEST
    )


def test_values_of_several_bindings_are_joined_without_duplicates() -> None:
    collector = AuditAnnotationCollector()
    for key, value in (("a", "1"), ("b", "x"), ("a", "2"), ("a", "1")):
        collector.add(key, value)
    assert collector.published("p") == {"p/a": "1, 2", "p/b": "x"}


def test_a_character_cut_at_the_limit() -> None:
    collector = AuditAnnotationCollector()
    collector.add("a", "x" * (10 * 1024 - 2) + "€")
    collector.add("b", "x" * (10 * 1024 - 1) + "é" + "more")
    collector.add("c", "x" * 10 * 1024)
    assert collector.published("p") == {
        "p/a": "x" * (10 * 1024 - 2) + "\ufffd\ufffd",
        "p/b": "x" * (10 * 1024 - 1) + "\ufffd",
        "p/c": "x" * 10 * 1024,
    }
