-- What:       What each policy and webhook did on each day (UTC)
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql decisions_by_day --param action=audit --store STORE
select
  stage_time::date as day, policy, action,
  count(distinct audit_id) as requests,
  count(distinct username) as users
from chosen_decision
group by all
order by day, policy, action
