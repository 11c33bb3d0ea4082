-- What:       The audited failures of one policy in the log: how many requests, how many of them failed, users, namespaces and
--             times
-- Parameters: policy      the name of the policy
--             start, end  the period in microseconds since the epoch, the end included
-- Example:    replace $policy by 'require-labels.static.k8s.io', $start by 0 and $end by 4102444800000000
select
  count(distinct audit_id) as requests,
  count(distinct audit_id) filter (where code >= 400) as failed,
  count(distinct username) as users,
  count(distinct "namespace") as namespaces,
  coalesce(min(epoch_us(stage_time)), 0) as first,
  coalesce(max(epoch_us(stage_time)), 0) as last
from decision
where action = 'audit' and policy = $policy and epoch_us(stage_time) between $start and $end
