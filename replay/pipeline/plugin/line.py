"""A result of a plugin as JSON."""

from __future__ import annotations

from replay.admission.builtin.run import PhaseResult, PluginResult
from replay.json import JSON


def result_line(result: PluginResult) -> dict[str, JSON]:
    """A result as JSON: `allowed`, `changed`, and each phase that the plugin has."""
    if result.unknown is not None:
        return {"undetermined": [f"{result.unknown.path}: {result.unknown.reason}"]}
    line: dict[str, JSON] = {"allowed": result.allowed, "changed": bool(result.patch)}
    for name, phase in (("admit", result.admit), ("validate", result.validate)):
        if phase is not None:
            line[name] = _phase_line(phase)
    return line


def _phase_line(phase: PhaseResult) -> dict[str, JSON]:
    line: dict[str, JSON] = {}
    if (refusal := phase.refusal) is not None:
        line["denied"] = {"code": refusal.code, "reason": refusal.reason, "message": refusal.message}
        if refusal.is_in_any_order:
            line["denied"]["messagePartsInAnyOrder"] = True
        if refusal.variants:
            line["denied"]["messageVariants"] = list(refusal.variants)
    said = {
        "patch": list(phase.patch),
        "warnings": list(phase.warnings),
        "auditAnnotations": phase.audit_annotations,
        "effects": list(phase.effects),
        "sent": phase.review_spec,
    }
    return line | {key: value for key, value in said.items() if value}
