-- What:       The pod templates of the ReplicaSets of certain Deployments
-- Parameters: $uids  the uids of the Deployments, as a JSON list
-- Example:    execute replicaset_templates with $uids: '["0e1c..."]'
select owner ->> '$.uid' as uid, template
from (
  select
    response_object -> '$.spec.template' as template,
    unnest(from_json(response_object -> '$.metadata.ownerReferences', '["JSON"]')) as owner
  from request
  where
    verb = 'create' and api_group = 'apps' and resource = 'replicasets' and subresource = '' and code between 200 and 299
)
where template is not null and owner ->> '$.uid' in (select unnest(from_json(cast($uids as varchar), '["VARCHAR"]')))
order by all
