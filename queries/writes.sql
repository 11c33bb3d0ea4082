-- What:       All successful writes to some resources, by object and in order: the history of namespaces, CRDs, parameters and
--             RBAC objects. A large log is read part by part: `store_rows` then has the files of one part.
-- Parameters: $resources  list of `resource.group`, or `resource` of the core group
-- Example:    execute writes(resources := ['namespaces', 'customresourcedefinitions.apiextensions.k8s.io'])
select
  object_name, seq, audit_id, level, stage, verb, request_uri, user_agent, "user"::varchar as "user", caller,
  api_group, api_version, resource, subresource, "namespace", "name", object_uid, object_resource_version,
  code, status, status_reason, status_message, epoch_us(received) as received, epoch_us(stage_time) as stage_time,
  annotations::varchar as annotations, request_object::varchar as request_object, response_object::varchar as response_object,
  file, line, true as selected, response_kind, response_uid, response_resource_version, workspace, scoped
from request
where
  object_name <> ''
  and verb in ('create', 'update', 'patch', 'delete')
  and (code between 200 and 299 or code >= 500 or code = 0)
  and list_contains($resources, concat_ws('.', resource, nullif(api_group, '')))
order by identity, seq, audit_id
