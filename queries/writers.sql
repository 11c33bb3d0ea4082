-- What:       who wrote each object last, as the log shows it: the subresources of an object, and what failed, left out
-- Parameters: none
-- Example:    replay sql writers --store STORE
select
  api_group,
  resource,
  "namespace",
  coalesce(nullif("name", ''), object_name) as "name",
  arg_max(username, seq) as username,
  arg_max("user", seq) as "user"
from request
where verb in ('create', 'update', 'patch') and subresource = '' and code between 200 and 299
group by all
order by all
