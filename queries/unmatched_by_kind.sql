-- What:       Successful requests that admission saw and that a predicate does not select, by verb and resource
-- Parameters: $predicate  an SQL expression over `request`
-- Example:    replace $predicate by: resource = 'pods'
select api_group, resource, subresource, verb, level, count(*) as requests
from request
where
  not coalesce($predicate, false)
  and code between 200 and 299
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
group by all
order by all
