-- What:       the objects that controllers made for owners with certain uids, by what keeps an object apart from others
-- Parameters: $uids  the uids of owners, as a JSON list
-- Example:    execute owned with $uids: '["0e1c..."]'
select distinct
  concat_ws(chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"), object_name) as key
from (
  select
    api_group, resource, "namespace", object_name,
    unnest(from_json(json_extract(response_object, '$.metadata.ownerReferences'), '["JSON"]')) ->> '$.uid' as owner
  from request
  where
    verb = 'create' and subresource = '' and code between 200 and 299 and object_name <> ''
    and username like 'system:%' and contains(response_object::varchar, '"ownerReferences"')
)
where owner in (select unnest(from_json(cast($uids as varchar), '["VARCHAR"]')))
order by key
