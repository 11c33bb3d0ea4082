-- What:       what the log shows of default IngressClasses and StorageClasses: of each object that was created without a class
--             the class that it got, null for none, and each write to a class itself (its name in `class_name`)
-- Parameters: none
-- Example:    execute default_classes
select
  resource,
  epoch_us(received) as received,
  epoch_us(stage_time) as stage_time,
  coalesce(
    response_object ->> '$.spec.ingressClassName', response_object ->> '$.spec.storageClassName', object_name_of_class
  ) as class_name
from (
  select
    resource, received, stage_time, request_object, response_object,
    if(resource in ('ingressclasses', 'storageclasses'), object_name, null) as object_name_of_class
  from request
  where
    -- As a value, which is asked for before bodies are read; as a list it would be asked for afterwards.
    coalesce(resource in ('ingresses', 'persistentvolumeclaims', 'ingressclasses', 'storageclasses'), false)
    and subresource = '' and code between 200 and 299 and request_uri not like '%dryRun%'
    and (
      (
        verb = 'create' and request_object is not null and response_object is not null
        and (
          (api_group = 'networking.k8s.io' and resource = 'ingresses')
          or (api_group = '' and resource = 'persistentvolumeclaims')
        )
      )
      or (
        verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
        and (
          (api_group = 'networking.k8s.io' and resource = 'ingressclasses')
          or (api_group = 'storage.k8s.io' and resource = 'storageclasses')
        )
      )
    )
)
where
  object_name_of_class is not null
  or (
    request_object ->> '$.spec.ingressClassName' is null
    and request_object ->> '$.spec.storageClassName' is null
    and json_extract_string(request_object, '$.metadata.annotations."kubernetes.io/ingress.class"') is null
    and json_extract_string(request_object, '$.metadata.annotations."volume.beta.kubernetes.io/storage-class"') is null
  )
order by all
