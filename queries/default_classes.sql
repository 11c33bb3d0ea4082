-- What:       Evidence for default IngressClasses and StorageClasses: for each object that was created without a class, the
--             class that it got (null for none), and each write to a class (its name in `class_name`)
-- Parameters: none
-- Needs:      resource in ('ingressclasses', 'storageclasses') or default_class is not null and resource <> 'pods'
-- Example:    execute default_classes
select
  resource,
  epoch_us(received) as received,
  epoch_us(stage_time) as stage_time,
  if(default_class is not null, nullif(default_class, ''), object_name) as class_name
from request
where
  subresource = '' and code between 200 and 299 and not is_dry_run(verb, request_uri, request_object)
  and (
    default_class is not null and resource != 'pods'
    or (
      verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
      and (
        (api_group = 'networking.k8s.io' and resource = 'ingressclasses')
        or (api_group = 'storage.k8s.io' and resource = 'storageclasses')
      )
    )
  )
order by all
