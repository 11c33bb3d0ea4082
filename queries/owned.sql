-- What:       The keys of the objects that controllers created for owners, or failed to create, with the uids of both. An
--             object that never got a name has the key `audit id` and the id of its request
-- Parameters: none
-- Needs:      verb = 'create' and owners is not null
-- Example:    execute owned
select distinct
  concat_ws(
    chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"),
    if(object_name = '', 'audit id ' || audit_id, object_name), nullif(workspace, '')
  ) as key,
  response_uid as uid,
  owner ->> '$.uid' as owner
from (
  select
    audit_id, api_group, resource, "namespace", object_name, workspace, if(code between 200 and 299, response_uid, '') as response_uid,
    unnest(from_json(owners, '["JSON"]')) as owner
  from request
  where
    verb = 'create' and subresource = '' and username like 'system:%'
    and if(code between 200 and 299, object_name <> '', code >= 400)
)
where owner ->> '$.uid' <> ''
order by all
