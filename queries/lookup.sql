-- What:       What admission did: one row for each denial, audited failure, mutation and ignored failure, in order
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql lookup --param action=deny --param namespace='prod-*' --store STORE
select
  stage_time as at, seq,
  action, plugin, policy, binding, expression_index, message, validation_actions, patch, source,
  audit_id, verb, username, api_group, resource, subresource, "namespace", object_name, code, is_static, is_denied, file, line
from chosen_decision
order by seq, audit_id, source, expression_index, policy
