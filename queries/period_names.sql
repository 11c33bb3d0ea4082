-- What:       the users and namespaces of the requests that admission saw in a period
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
-- Example:    replace $start by 0 and $end by 4102444800000000
select distinct username, "namespace"
from request
where
  epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
order by all
