-- What:       The workspaces of kcp in a log: logical cluster, path, and the requests that admission saw
-- Parameters: none
-- Needs:      workspace <> ''
-- Example:    replay sql workspaces --store STORE
select
  workspace,
  coalesce(max(workspace_path), '') as path,
  count(*) as requests,
  count(*) filter (verb in ('create', 'update', 'patch', 'delete', 'deletecollection')) as writes
from request
where workspace <> ''
group by workspace
order by workspace
