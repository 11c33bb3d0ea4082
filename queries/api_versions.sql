-- What:       Who uses deprecated API versions, or the given ones, with the newest client of each user
-- Parameters: $removed_versions  resources as `group/version/resource`, as a JSON list
-- Example:    execute api_versions with $removed_versions: '["networking.k8s.io/v1beta1/servicecidrs"]'
select
  api_group,
  api_version,
  resource,
  username,
  arg_max(split_part(user_agent, ' ', 1), received) as agent,
  count(*) as requests,
  count(*) filter (code between 200 and 399) as succeeded,
  epoch_us(max(received)) as last,
  coalesce(max(annotations ->> '$."k8s.io/removed-release"'), '') as removed
from request
where
  resource <> '' and (
    annotations ->> '$."k8s.io/deprecated"' = 'true'
    or concat_ws('/', api_group, api_version, resource) in (select unnest(from_json(cast($removed_versions as varchar), '["VARCHAR"]')))
  )
group by api_group, api_version, resource, username
order by requests desc, api_group, api_version, resource, username
