-- What:       Every change of a namespace's labels, from its creation to its deletion. Policies match by these labels
-- Parameters: namespace  a name, with * and ? as wildcards; unset for all
-- Example:    replay sql namespace_history --param namespace='prod-*' --store STORE
with told as (
  select
    object_name as "namespace", stage_time as at, seq, audit_id, verb, subresource, username, code,
    response_resource_version as resource_version,
    if(response_kind = 'Namespace', json_extract(response_object, '$.metadata.labels')::varchar, null) as labels
  from request
  where
    api_group = '' and resource = 'namespaces' and code between 200 and 299
    and verb in ('create', 'update', 'patch', 'delete')
    and object_name glob coalesce(getvariable('namespace')::varchar, '*')
)
select *
from told
qualify
  verb in ('create', 'delete')
  or labels is distinct from lag(labels) over (partition by "namespace" order by seq, audit_id)
order by "namespace", seq, audit_id
