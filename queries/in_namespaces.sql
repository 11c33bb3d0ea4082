-- What:       the objects in some namespaces that somebody wrote, by what keeps an object apart from others
-- Parameters: $namespaces  the names, as a JSON list; of one in a workspace of kcp that follows, after a unit separator
-- Example:    execute in_namespaces with $namespaces: '["team-a"]'
select distinct concat_ws(chr(31), api_group, resource, "namespace", object_name, nullif(workspace, '')) as key
from request
where
  verb in ('create', 'update', 'patch', 'delete') and object_name <> '' and resource <> 'namespaces'
  and concat_ws(chr(31), "namespace", nullif(workspace, '')) in (select unnest(from_json(cast($namespaces as varchar), '["VARCHAR"]')))
order by key
