-- What:       The requests that admission saw, counted by verb, resource and subresource
-- Parameters: none
-- Example:    execute admission_classes
select verb, api_group, resource, subresource, count(*) as requests
from request
where
  verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
  or subresource in ('attach', 'exec', 'portforward', 'proxy')
group by all
order by all
