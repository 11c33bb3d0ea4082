-- What:       When revisions were stored: between the reception of the first write that returns the revision and its answer.
--             For a revision that only an update names: before that update (`received` is null). Only rows that bound the time
--             of a revision of $wanted are listed. Answers after a higher revision was complete do not count, because those
--             writes changed nothing. `replay/reconstruct/history/clock.py` has the rule.
-- Parameters: $wanted  list of revisions
--             $error   by how many microseconds times of different API servers may be wrong
-- Needs:      response_resource_version <> '' or object_resource_version <> ''
-- Example:    execute revisions(wanted := [100, 200], error := 0)
with told as (
  select
    try_cast(response_resource_version as bigint) as revision,
    epoch_us(received) as received,
    epoch_us(stage_time) as stored_by
  from counted_row
  where
    verb in ('create', 'update', 'patch') and code between 200 and 299 and response_resource_version <> ''
    and not is_dry_run_url(request_uri)
  union all
  select try_cast(object_resource_version as bigint), null, epoch_us(received)
  from counted_row
  where verb = 'update' and object_resource_version not in ('', '0')
), sample as (
  select
    revision,
    arg_min(received, stored_by) filter (received is not null) as received,
    coalesce(min(stored_by) filter (received is not null), min(stored_by)) as stored_by
  from told
  where revision is not null
  group by revision
), complete as (
  select stored_by + $error::bigint as at, max(max(revision)) over (order by stored_by) as highest
  from sample
  group by stored_by
), in_time as (
  select sample.*
  from sample
  asof left join complete on sample.received - $error::bigint >= complete.at
  where highest is null or revision >= highest
), wanted as (
  select distinct unnest($wanted::bigint[]) as bound
), placed as (
  -- Between two wanted revisions only the last to begin and the first to end bound anything.
  select in_time.*, bound, bound = revision as is_wanted
  from in_time
  asof left join wanted on in_time.revision >= wanted.bound
)
select revision, received, stored_by
from in_time
where
  revision in (select arg_max(revision, coalesce(received, -1)) from placed group by bound, is_wanted)
  or revision in (select arg_min(revision, stored_by) from placed group by bound, is_wanted)
order by revision
