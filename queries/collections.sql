-- What:       The successful `deletecollection` requests, in order. The response has the objects that they deleted
-- Parameters: $group    an API group, or null for all
--             $refused  whether requests count that a policy or webhook refused
--             $written  whether only requests count that can find an object of the log: a client that empties a namespace asks for all kinds
--             $let_in   the `seq` of requests that count although the authorizers refused them
-- Needs:      verb = 'deletecollection'
-- Example:    execute collections(group := null, refused := false, written := false, let_in := [])
with written as (
  select distinct api_group, resource, unnest(["namespace", '']) as "namespace", workspace
  from request
  where
    $written and (verb in ('create', 'update', 'patch', 'delete') or subresource in ('attach', 'exec', 'portforward', 'proxy'))
)
select
  identity, seq, audit_id, level, stage, verb, request_uri, user_agent, "user"::varchar as "user", caller,
  api_group, api_version, resource, subresource, "namespace", "name", object_uid, object_resource_version,
  code, status, status_reason, status_message, epoch_us(received) as received, epoch_us(stage_time) as stage_time,
  annotations::varchar as annotations, request_object::varchar as request_object, response_object::varchar as response_object,
  file, line, true as selected, response_kind, response_uid, response_resource_version, workspace, scoped
from request
where
  verb = 'deletecollection'
  and (
    code between 200 and 299 or $refused and code >= 400 and regexp_matches(status_message, 'denied (the )?request: ')
    or seq in (select unnest($let_in::bigint[]))
  )
  and api_group = coalesce($group::varchar, api_group)
  and (not $written or (api_group, resource, "namespace", workspace) in (from written))
order by seq, audit_id
