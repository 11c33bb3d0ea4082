-- What:       when each revision was stored: between the reception of the first write that answers with it and its answer;
--             of versions that only an update names, that they were stored before it (`received` null).
--             `replay/reconstruct/clock.py` states the rule.
-- Parameters: none
-- Example:    execute revisions
with told as (
  select
    try_cast(response_resource_version as bigint) as revision,
    epoch_us(received) as received,
    epoch_us(stage_time) as stored_by
  from request
  where
    verb in ('create', 'update', 'patch') and code between 200 and 299 and not contains(request_uri, 'dryRun')
    and response_resource_version <> ''
  union all
  select try_cast(object_resource_version as bigint), null, epoch_us(received)
  from request
  where verb = 'update' and object_resource_version not in ('', '0')
)
select
  revision,
  arg_min(received, stored_by) filter (received is not null) as received,
  coalesce(min(stored_by) filter (received is not null), min(stored_by)) as stored_by
from told
where revision is not null
group by revision
order by revision
