-- What:       The names in a log, to suggest a correction for a mistyped name
-- Parameters: kind: policy, user, namespace, object or audit_id
-- Example:    replay sql log_names --param kind=policy --store STORE
select distinct "name"
from (
  select policy as "name" from decision where getvariable('kind') = 'policy'
  union all select binding from decision where getvariable('kind') = 'policy' and plugin = 'webhook' and action = 'deny'
  union all select username from request where getvariable('kind') = 'user'
  union all select "namespace" from request where getvariable('kind') = 'namespace'
  union all select object_name from request where getvariable('kind') = 'object'
  union all select audit_id from request where getvariable('kind') = 'audit_id'
)
where "name" <> ''
order by all
