-- What:       The controllers of the objects between a workload and its pods, from the creation of these objects
-- Parameters: none
-- Needs:      verb = 'create' and owners is not null
-- Example:    execute owners
select distinct
  "namespace",
  response_kind as kind,
  object_name as "name",
  reference ->> '$.kind' as owner_kind,
  reference ->> '$.name' as owner_name
from (
  select "namespace", response_kind, object_name, unnest(from_json(owners, '["JSON"]')) as reference
  from request
  where
    owners is not null and workspace = '' and verb = 'create' and subresource = '' and code between 200 and 299
    and resource in ('replicasets', 'jobs', 'controllerrevisions') and api_group in ('apps', 'batch')
)
where reference ->> '$.controller' = 'true'
order by all
