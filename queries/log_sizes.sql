-- What:       The size of the events of a log by verb and resource: `events`, bytes without bodies (`plain`, estimated from
--             the columns), bytes of request and response bodies, how many events have a body, and how many requests admission
--             saw.
-- Parameters: none
-- Example:    execute log_sizes
select
  api_group, resource, subresource, verb, level,
  verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy') as admission,
  count(*) as events,
  -- 480 bytes of names, times and punctuation come with every event
  sum(
    480 + strlen(audit_id) + strlen(request_uri) + strlen(user_agent) + strlen(coalesce("user"::varchar, ''))
    + strlen(coalesce(annotations::varchar, '')) + strlen("namespace") + strlen("name") + strlen(api_group)
    + strlen(resource) + strlen(subresource) + strlen(status_message)
  )::bigint as plain,
  count(request_object) as request_bodies,
  coalesce(sum(strlen(request_object::varchar)), 0)::bigint as request_octets,
  count(response_object) as response_bodies,
  coalesce(sum(strlen(response_object::varchar)), 0)::bigint as response_octets
from request
group by all
order by all
