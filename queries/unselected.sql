-- What:       requests that admission saw and a predicate does not select, without their bodies, in the columns of a record
-- Parameters: $predicate  an SQL expression over `request`
--             $within     another one, which does select them
--             $only_failed  true to leave out those that succeeded
-- Example:    replace $predicate by: resource = 'pods', $within by: true, and $only_failed by: false
select
  identity, seq, audit_id, level, stage, verb, request_uri, user_agent, "user"::varchar as "user", caller,
  api_group, api_version, resource, subresource, "namespace", object_name as "name", object_uid, object_resource_version,
  code, status, status_reason, status_message, epoch_us(received) as received, epoch_us(stage_time) as stage_time,
  annotations::varchar as annotations, null::varchar as request_object, null::varchar as response_object,
  file, line, true as selected, response_kind, response_uid, response_resource_version
from request
where
  not coalesce($predicate, false)
  and $within
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
  and not ($only_failed and code between 200 and 299)
order by seq, audit_id
