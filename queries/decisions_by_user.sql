-- What:       The users for whose requests policies and webhooks acted
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql decisions_by_user --param policy='no-privileged.static.k8s.io' --store STORE
select
  username, action,
  count(distinct audit_id) as requests,
  count(distinct policy) as policies,
  count(distinct "namespace") as namespaces,
  min(stage_time) as first,
  max(stage_time) as last
from chosen_decision
group by all
order by requests desc, username, action
