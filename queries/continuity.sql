-- What:       Evidence for gaps in a log: an update names the version that it replaces. By resource: how many of these
--             versions a write in the log stored (`links`), and how many none did although the log has an earlier write of the
--             object (`breaks`, and the `seq` of these updates in `broken`). An update that creates its object replaces
--             nothing. `replay/reconstruct/trust.py` has the rule.
-- Parameters: none
-- Needs:      verb = 'update' and object_resource_version <> ''
-- Example:    execute continuity
with written as (
  select
    identity, seq, audit_id, api_group, resource, subresource, verb, code,
    nullif(object_resource_version, '0') as replaced,
    is_dry_run(verb, request_uri, request_object) as dry_run,
    if(
      is_dry_run(verb, request_uri, request_object)
        or subresource in ('attach', 'binding', 'eviction', 'exec', 'log', 'portforward', 'proxy', 'token'),
      null, nullif(response_resource_version, '')
    ) as stored
  from request
  where verb in ('create', 'update', 'patch', 'delete') and code between 200 and 299
), linked as (
  select
    *,
    coalesce(bool_or(stored is not null) over before, false) as begun,
    -- The last write before this one that was no dry run: its result may not be in the log.
    coalesce(
      last_value(if(dry_run, null, stored is null and subresource not in ('token', 'log')) ignore nulls) over before, false
    ) as open_write,
    (identity, replaced) in (select (identity, stored) from written where stored is not null) as is_stored
  from written
  window before as (partition by identity order by seq, audit_id rows between unbounded preceding and 1 preceding)
), replacing as (
  select *, not is_stored and not open_write as is_break
  from linked
  where begun and verb = 'update' and code <> 201 and coalesce(replaced, '') <> '' and subresource <> 'scale'
)
select
  api_group, resource,
  count(*) filter (is_stored) as links,
  count(*) filter (is_break) as breaks,
  list(seq) filter (is_break) as broken
from replacing
group by all
order by all
