-- What:       The requests of each user: all of them, those that write, those that failed, and the clients used
-- Parameters: user  a name, with * and ? as wildcards; unset for all
-- Example:    replay sql requests_by_user --param user='system:*' --store STORE
select
  username,
  count(*) as requests,
  count(*) filter (verb in ('create', 'update', 'patch', 'delete', 'deletecollection')) as writes,
  count(*) filter (code >= 400) as failed,
  count(distinct "namespace") filter ("namespace" <> '') as namespaces,
  list(distinct split_part(user_agent, ' ', 1) order by split_part(user_agent, ' ', 1)) as clients,
  min(received) as first,
  max(stage_time) as last
from request
where username glob coalesce(getvariable('user')::varchar, '*')
group by username
order by requests desc, username
