-- What:       The policies and webhooks that acted: how often, for how many users, namespaces and objects, and since when
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql decisions_by_policy --param static=true --param since='2026-11-21 03:00:00' --store STORE
select
  policy, action, plugin,
  count(*) as decisions,
  count(distinct audit_id) as requests,
  count(distinct username) as users,
  count(distinct "namespace") as namespaces,
  -- What was to get a generated name and got none is an object of its own.
  count(distinct (api_group, resource, "namespace", coalesce(nullif(object_name, ''), audit_id))) as objects,
  min(stage_time) as first,
  max(stage_time) as last,
  min(nullif(message, '')) as example_message
from chosen_decision
group by all
order by requests desc, policy, action
