-- What:       how many requests admission saw, by whether a predicate selects them and whether they succeeded
-- Parameters: $predicate  an SQL expression over `request`
-- Example:    replace $predicate by: resource = 'pods'
select
  coalesce($predicate, false) as selected,
  code between 200 and 299 as succeeded,
  count(*) as requests
from request
where
  verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
  or subresource in ('attach', 'exec', 'portforward', 'proxy')
group by all
order by all
