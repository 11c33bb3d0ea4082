-- What:       Writes that contradict the clock: they began after a write of a higher revision was answered. etcd counts
--             revisions for the whole cluster. So the clocks of the API servers differ by at least `apart` (microseconds).
--             Only writes that certainly stored an object count.
-- Parameters: none
-- Needs:      response_resource_version <> ''
-- Example:    execute log_clocks
with stored as (
  select file, received, stage_time, try_cast(response_resource_version as bigint) as revision
  from request
  where
    (
      (verb = 'create' and code = 201)
      or (verb = 'update' and code = 200 and object_resource_version not in ('', '0', response_resource_version))
    )
    and response_resource_version <> ''
    and subresource not in ('binding', 'eviction', 'token', 'scale')
    and not is_dry_run_url(request_uri)
), ordered as (
  select
    file, stage_time,
    max(received) over lower_ones as latest,
    arg_max(file, received) over lower_ones as latest_file
  from stored
  window lower_ones as (order by revision rows between unbounded preceding and 1 preceding)
)
select latest_file as file, file as other, count(*) as requests, (epoch(max(latest - stage_time)) * 1000000)::bigint as apart
from ordered
where latest > stage_time
group by all
order by requests desc, file, other
limit 10
