-- What:       the requests that a predicate selects, and before them the writes that tell the state of the same objects
--             (`selected` false): by object, in order. A write counts where it succeeded, or where nobody can tell.
--             Clocks of API servers differ: writes up to five seconds after the last selected request are included.
-- Parameters: $predicate  an SQL expression over `request` (`replay/matching/coarse.py` makes one of two manifest sets)
-- Example:    replace $predicate by: verb = 'update' and resource = 'pods'
with told as (
  select *, coalesce($predicate, false) as selected from request
), chosen as (
  select identity, max(seq) + 5000000::bigint * 1024 as until from told where selected group by identity
)
select
  told.identity, seq, audit_id, level, stage, verb, request_uri, user_agent, "user"::varchar as "user", caller,
  api_group, api_version, resource, subresource, "namespace", "name", object_uid, object_resource_version,
  code, status, status_reason, status_message, epoch_us(received) as received, epoch_us(stage_time) as stage_time,
  annotations::varchar as annotations, request_object::varchar as request_object, response_object::varchar as response_object,
  file, line, selected, response_kind, response_uid, response_resource_version
from told
join chosen on told.identity = chosen.identity
where
  selected
  or (
    seq <= until
    and verb in ('create', 'update', 'patch', 'delete')
    and (code between 200 and 299 or code >= 500 or code = 0)
    and subresource not in ('attach', 'exec', 'portforward', 'proxy', 'token', 'log')
  )
order by told.identity, seq, audit_id
