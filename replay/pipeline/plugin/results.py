"""`replay plugin`: the requests of a log, then given ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.errors import ManifestError, ReplayError
from replay.json import JSON
from replay.pipeline.forensic.past import Chosen, past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import manifests_of
from replay.pipeline.plugin.cases import case_results
from replay.pipeline.plugin.config import configured_plugin, read_config
from replay.pipeline.plugin.engine import ENGINES, engine_results
from replay.pipeline.plugin.recorded import recorded_results
from replay.pipeline.plugin.world import PluginWorld
from replay.pipeline.replay.order import LoggedRequest, logged_request
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

_WRITES = Chosen("verb not in ('list', 'watch', 'deletecollection')")


def plugin_results(
    name: str, config: Path, cases: Sequence[Path], scenario: Scenario, progress: Progress
) -> Iterator[dict[str, JSON]]:
    """Yield the result lines of a plugin or policy engine, recorded requests first; raise ReplayError for unusable input."""
    if name in ENGINES:
        yield from engine_results(name, config, cases, scenario)
        return
    plugin_config = read_config(config, name)
    try:
        plugin = configured_plugin(plugin_config)
    except ManifestError as error:
        raise ManifestError(error.message, path=str(config)) from error
    if not cases and not scenario.logs and scenario.store is None:
        raise ReplayError("nothing to ask: give a log, or requests with --cases")
    world = PluginWorld(plugin_config, read_snapshot(scenario.cluster) if scenario.cluster is not None else ())
    if scenario.logs or scenario.store is not None:
        yield from recorded_results(plugin, world, logged_requests(scenario, progress))
    for path in cases:
        # buckets are of the time that they were filled in, which is not that of the cases
        asked_next = configured_plugin(plugin_config) if plugin.is_timed else plugin
        yield from case_results(asked_next, world, numbered_lines(path), str(path))


def logged_requests(scenario: Scenario, progress: Progress) -> Iterator[LoggedRequest]:
    """The requests of a log that admission saw."""
    with store_of(scenario, progress) as store:
        job = past_job(store, manifests_of(scenario))
        reconstructor = replace(job.reconstructor, mutation=True)
        for number in range(store.parts):
            for records in store.part(number).objects(_WRITES):
                for request in reconstructor.requests(records):
                    if (logged := logged_request(request)) is not None:
                        yield logged
