-- What:       The keys of the objects in some namespaces that a request wrote
-- Parameters: $namespaces  the names, as a JSON list. In a workspace of kcp: the name, a unit separator and the workspace
-- Example:    execute in_namespaces with $namespaces: '["team-a"]'
select distinct concat_ws(chr(31), api_group, resource, "namespace", object_name, nullif(workspace, '')) as key
from request
where
  verb in ('create', 'update', 'patch', 'delete') and object_name <> '' and resource <> 'namespaces'
  and concat_ws(chr(31), "namespace", nullif(workspace, '')) in (select unnest(from_json(cast($namespaces as varchar), '["VARCHAR"]')))
order by key
