-- What:       Who wrote each object last. Subresources and failed writes do not count
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
