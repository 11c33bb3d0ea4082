"""Parts of policies that formulas do not cover. Each makes the answer not known."""

from __future__ import annotations

from collections.abc import Sequence

from replay.prove.symbolic.policy_model import UnmodelledError
from replay.prove.unit import BoundPolicy


def require_covered(units: Sequence[BoundPolicy]) -> None:
    """Raise `UnmodelledError` for a part that is not covered."""
    if len({unit.policy.static for unit in units}) > 1:
        raise UnmodelledError("one side is a static manifest and the other an object of the API")
