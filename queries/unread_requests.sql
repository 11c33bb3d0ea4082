-- What:       How many successful requests admission saw that a predicate does not select, by verb and resource
-- Parameters: $predicate  an SQL expression over `request`
--             $within     another one that selects them
-- Example:    replace $predicate by: resource = 'pods', and $within by: true
select verb, api_group, resource, subresource, count(*) as requests
from request
where
  not coalesce($predicate, false)
  and $within
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
  and code between 200 and 299
group by all
order by all
