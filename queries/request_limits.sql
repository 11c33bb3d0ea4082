-- What:       The time limits that clients set for their writes (`?timeout=`), with counts by verb and resource
-- Parameters: none
-- Example:    execute request_limits
select
  verb, api_group, resource, subresource, regexp_extract(request_uri, '[?&]timeout=([^&]*)', 1) as time_limit, count(*) as requests
from request
where verb in ('create', 'update', 'patch', 'delete', 'deletecollection') and regexp_matches(request_uri, '[?&]timeout=[^&]')
group by all
order by all
