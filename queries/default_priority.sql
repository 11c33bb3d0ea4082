-- What:       what the log shows of a default PriorityClass: the classes that pods got which were created without one, null for
--             none, all that got one class together, and each write to a PriorityClass that may be a default (its name in
--             `class_name`)
-- Parameters: none
-- Example:    execute default_priority
select
  resource,
  min(epoch_us(received)) as received,
  max(epoch_us(stage_time)) as stage_time,
  if(resource = 'pods', response_object ->> '$.spec.priorityClassName', object_name) as class_name
from request
where
  subresource = '' and code between 200 and 299 and request_uri not like '%dryRun%'
  and (
    (
      api_group = '' and resource = 'pods' and verb = 'create' and response_kind = 'Pod'
      and request_object is not null and request_object ->> '$.spec.priorityClassName' is null
    )
    or (
      api_group = 'scheduling.k8s.io' and resource = 'priorityclasses'
      and verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
      and response_kind || coalesce(response_object ->> '$.globalDefault', '') != 'PriorityClass'
    )
  )
group by resource, class_name
order by all
