-- What:       Writes and connections by verb, resource and user, with the authorizers' answer and the keys of the objects. An
--             object without a name has the key `audit id` and the id of its request
-- Parameters: $since  the `seq` of the first request to read
-- Example:    execute askers(since := 0)
select
  verb, api_group, resource, subresource, "user"::varchar as "user",
  coalesce(said[1], '') = 'forbid' as is_forbidden,
  coalesce(said[2], '') as reason,
  list(distinct concat_ws(
    chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"),
    if(object_name = '', 'audit id ' || audit_id, object_name), nullif(workspace, '')
  )) as keys
from (
  select *, json_extract_string(annotations, ['$."authorization.k8s.io/decision"', '$."authorization.k8s.io/reason"']) as said
  from request
)
where
  seq >= $since and workspace = ''
  and (verb in ('create', 'update', 'patch', 'delete') or subresource in ('attach', 'exec', 'portforward', 'proxy'))
group by all
order by all
