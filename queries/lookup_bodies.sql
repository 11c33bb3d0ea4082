-- What:       Kind, owner references and labels of the objects of the chosen decisions, to find their owners: from the
--             request's body, else from the response's, else from the object as it was stored last
-- Parameters: policy, user, namespace, object, since, until, action, audit_id, static: all optional;
--             `ingest_decision_views.sql` says what each selects. In the DuckDB command line: set variable policy = '...';
-- Example:    replay sql lookup_bodies --param action=deny --store STORE
with asked as (
  select audit_id, identity, request_object, response_object
  from request
  where audit_id in (select audit_id from chosen_decision)
), stored as (
  select identity, arg_max(response_object, seq) as body
  from request
  where
    identity in (select identity from asked) and code between 200 and 299 and (response_object ->> '$.kind') <> 'Status'
  group by all
), found as (
  select
    audit_id,
    case
      when json_exists(request_object, '$.metadata') and (request_object ->> '$.kind') <> 'DeleteOptions' then request_object
      when json_exists(response_object, '$.metadata.name') then response_object
      else body
    end as body
  from asked
  left join stored using (identity)
)
select
  audit_id,
  json_object(
    'apiVersion', body ->> '$.apiVersion',
    'kind', body ->> '$.kind',
    'involvedObject', body -> '$.involvedObject',
    'regarding', body -> '$.regarding',
    'metadata', json_object(
      'ownerReferences', body -> '$.metadata.ownerReferences',
      'generateName', body ->> '$.metadata.generateName',
      'labels', body -> '$.metadata.labels'
    )
  ) as body
from found
where body is not null
order by all
