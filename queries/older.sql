-- What:       The keys of objects that may be older than the log: the log does not begin with their creation. Objects in a
--             namespace that the log creates are not older
-- Parameters: none
-- Example:    execute older
with written as (
  select
    *, concat_ws(chr(31), api_group, resource, "namespace", object_name) as key,
    subresource = '' and ((verb = 'create' and code between 200 and 299) or code = 201) as creates
  from request
  where
    verb in ('create', 'update', 'patch', 'delete') and object_name <> '' and workspace = ''
    and not (resource = 'namespaces' and api_group = '')
), born as (
  select object_name as "namespace"
  from request
  where resource = 'namespaces' and api_group = '' and verb = 'create' and code = 201
)
select key
from written
where "namespace" not in (select "namespace" from born)
group by key
having not arg_min(creates, seq)
order by key
