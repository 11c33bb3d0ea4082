-- What:       the objects that controllers made for owners, by what keeps an object apart from others, with the uids of both
-- Parameters: none
-- Example:    execute owned
select distinct
  concat_ws(chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"), object_name) as key,
  response_uid as uid,
  owner
from (
  select
    api_group, resource, "namespace", object_name, response_uid,
    unnest(from_json(json_extract(response_object, '$.metadata.ownerReferences'), '["JSON"]')) ->> '$.uid' as owner
  from request
  where
    verb = 'create' and subresource = '' and code between 200 and 299 and object_name <> '' and username like 'system:%'
)
where owner <> ''
order by all
