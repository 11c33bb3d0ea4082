-- What:       the time limits that clients set for their own writes (`?timeout=`), by what rules read of requests, and how many there are
-- Parameters: none
-- Example:    execute request_limits
select
  verb, api_group, resource, subresource, regexp_extract(request_uri, '[?&]timeout=([^&]*)', 1) as time_limit, count(*) as requests
from request
where verb in ('create', 'update', 'patch', 'delete', 'deletecollection') and regexp_matches(request_uri, '[?&]timeout=[^&]')
group by all
order by all
