-- What:       The uids that the objects of some kinds had in the responses to successful writes, to compare them with a
--             snapshot
-- Parameters: none
-- Example:    execute lookup_uids
select distinct api_group, resource, "namespace", "name", response_kind, response_uid
from request
where
  verb in ('create', 'update', 'patch', 'delete')
  and code between 200 and 299
  and response_uid <> '' and workspace = ''
  and (
    (api_group = '' and resource in ('namespaces', 'nodes', 'serviceaccounts'))
    or (api_group = 'rbac.authorization.k8s.io' and subresource = '')
    or (api_group = 'apiextensions.k8s.io' and resource = 'customresourcedefinitions')
    or (api_group = 'scheduling.k8s.io' and resource = 'priorityclasses')
  )
order by all
