-- What:       writes and connections by what they are, who asked, and what the authorizers said, with the objects by what keeps them
--             apart from others: an object that never got a name has `audit id` and the id of its request for one
-- Parameters: $since  the place in the log from which on they are wanted
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
