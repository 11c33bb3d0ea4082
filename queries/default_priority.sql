-- What:       Evidence for a default PriorityClass: the classes of pods that were created without one (null for none), counted
--             by class, and each write to a PriorityClass that may be a default (its name in `class_name`)
-- Parameters: none
-- Needs:      resource = 'priorityclasses' or default_class is not null and resource = 'pods'
-- Example:    execute default_priority
with created as (
  -- Apart from the other, which reads bodies.
  select resource, received, stage_time, nullif(default_class, '') as class_name
  from request
  where
    api_group = '' and resource = 'pods' and default_class is not null and response_kind = 'Pod'
    and not is_dry_run(verb, request_uri, request_object)
), written as (
  select resource, received, stage_time, object_name as class_name
  from request
  where
    api_group = 'scheduling.k8s.io' and resource = 'priorityclasses'
    and verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    and subresource = '' and code between 200 and 299 and not is_dry_run(verb, request_uri, request_object)
    and response_kind || coalesce(response_object ->> '$.globalDefault', '') != 'PriorityClass'
)
select resource, min(epoch_us(received)) as received, max(epoch_us(stage_time)) as stage_time, class_name
from (from created union all from written)
group by resource, class_name
order by all
