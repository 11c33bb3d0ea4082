-- What:       The requests to each resource, by verb: how many, how many failed, and how many have bodies
-- Parameters: none
-- Example:    replay sql requests_by_resource --store STORE
select
  api_group, resource, subresource, verb,
  count(*) as requests,
  count(*) filter (code >= 400) as failed,
  count(*) filter (response_object is not null) as with_response,
  count(distinct username) as users,
  min(received) as first,
  max(stage_time) as last
from request
group by all
order by requests desc, api_group, resource, subresource, verb
