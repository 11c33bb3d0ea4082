-- What:       creations that contradict the clock: one has a lower revision than another that was answered before it began.
--             Revisions are counted by etcd for the whole cluster, so the clocks of the API servers differ by `apart` at least.
-- Parameters: none
-- Example:    execute log_clocks
with created as (
  select file, received, stage_time, try_cast(response_resource_version as bigint) as revision
  from request
  where verb = 'create' and code = 201 and response_resource_version <> '' and not contains(request_uri, 'dryRun')
), answered as (
  select stage_time, revision, file, max(revision) over (order by stage_time) as highest,
    arg_max(file, revision) over (order by stage_time) as highest_file
  from created
), contradicted as (
  select created.file, answered.highest_file as other, created.received - answered.stage_time as apart
  from created asof join answered on answered.stage_time < created.received
  where answered.highest > created.revision
)
select file, other, count(*) as requests, (epoch(max(apart)) * 1000000)::bigint as apart
from contradicted
group by file, other
order by requests desc, file, other
limit 10
