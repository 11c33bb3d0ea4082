-- What:       One row of totals for the chosen decisions: requests, decisions, and denied requests with audited failures
--             (action `audit` does not list these)
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql lookup_summary --param static=true --param action=audit --store STORE
select
  count(*) as decisions,
  count(distinct audit_id) as requests,
  count(distinct policy) as policies,
  count(distinct username) as users,
  count(distinct "namespace") as namespaces,
  min(stage_time) as first,
  max(stage_time) as last,
  (
    select count(distinct audit_id) from decision
    where
      action = 'audit' and is_denied
      and (getvariable('policy') is null or policy glob getvariable('policy')::varchar)
      and (coalesce(getvariable('static')::boolean, false) is false or is_static)
  ) as denied_with_failures
from chosen_decision
