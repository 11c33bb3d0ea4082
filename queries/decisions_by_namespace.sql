-- What:       The namespaces in which policies and webhooks acted (empty: cluster-scoped objects)
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql decisions_by_namespace --param action=deny --store STORE
select
  "namespace", action,
  count(distinct audit_id) as requests,
  count(distinct policy) as policies,
  count(distinct username) as users,
  min(stage_time) as first,
  max(stage_time) as last
from chosen_decision
group by all
order by requests desc, "namespace", action
