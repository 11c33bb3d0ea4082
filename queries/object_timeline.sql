-- What:       Every request to an object and its subresources, in order: user, answer and bodies
-- Parameters: resource (plural name, required), object (its name, required), namespace and group (empty for cluster scope
--             and for the core group)
-- Example:    replay sql object_timeline --param resource=deployments --param group=apps --param namespace=prod --param object=web --store STORE
select
  seq, epoch_us(stage_time) as at,
  audit_id, level, stage, verb, request_uri, subresource, username, user_agent, code, status_reason, status_message,
  response_kind, response_resource_version,
  request_object::varchar as request_object, response_object::varchar as response_object
from request
where
  resource = getvariable('resource') and api_group = coalesce(getvariable('group')::varchar, '')
  and (
    "namespace" = coalesce(getvariable('namespace')::varchar, '')
    -- Requests to a Namespace carry its name as their namespace.
    or (resource = 'namespaces' and api_group = '')
  )
  and object_name = getvariable('object')
order by seq, audit_id
