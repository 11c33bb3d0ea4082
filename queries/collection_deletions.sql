-- What:       The `deletecollection` requests that deleted objects, or may have: resource, namespace, times and URL. `deleted`
--             lists name, uid and whether a finalizer keeps the object, its own or one that the deletion adds. It is null if
--             the log does not list the objects. A request that failed on one object may have deleted others before it
-- Parameters: none
-- Needs:      verb = 'deletecollection'
-- Example:    execute collection_deletions
select
  api_group, resource, "namespace", epoch_us(received) as received, epoch_us(stage_time) as stage_time, request_uri,
  if(
    code between 200 and 299 and response_kind like '%List' and json_type(response_object, '$.items') = 'ARRAY',
    list_transform(
      json_extract(response_object, '$.items[*]'),
      lambda item: [
        coalesce(item ->> '$.metadata.name', ''),
        coalesce(item ->> '$.metadata.uid', ''),
        if(
          coalesce(json_array_length(item, '$.metadata.finalizers'), 0) > 0
          or coalesce(request_object ->> '$.propagationPolicy', 'Background') != 'Background'
          or request_object ->> '$.orphanDependents' = 'true'
          or request_uri similar to '.*[?&](propagationPolicy=[FO]|orphanDependents=[t1T]).*',
          'kept', ''
        )
      ]
    ),
    null
  ) as items,
  workspace
from request
where
  verb = 'deletecollection'
  and not is_dry_run(verb, request_uri, request_object)
  and (
    code between 200 and 299 and coalesce(json_array_length(response_object, '$.items'), 1) > 0
    or code not between 200 and 299
    and code not in (400, 401, 404, 405, 406, 410, 413, 415, 429)
    and coalesce(json_extract_string(annotations, '$."authorization.k8s.io/decision"'), '') != 'forbid'
  )
order by seq, audit_id
