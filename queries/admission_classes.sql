-- What:       what rules read of requests, for all requests that admission saw
-- Parameters: none
-- Example:    execute admission_classes
select distinct verb, api_group, resource, subresource
from request
where
  verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
  or subresource in ('attach', 'exec', 'portforward', 'proxy')
order by all
