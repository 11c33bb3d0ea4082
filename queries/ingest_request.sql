-- What:       Events in the columns of the `request` table, with the reason why a row is no event (`reject`, null for an
--             event) and its part of the store (-1 for what is no request). `identity` is a hash of the object: group,
--             resource, namespace, name, and the workspace of kcp. The response has a name that the server generated. A
--             request without a name has its auditID for one. `seq` orders the requests of all API servers: by the time of the
--             stage, then by a hash of the auditID, so that neither the order of the files nor their boundaries matter. Kinds
--             that decisions look up, and deletions of collections, are in the last parts. Their few rows are found there
--             without reading all other bodies.
-- Parameters: $looked_up   `resource.group` of kinds that decisions look up
--             $lookups_from, $lookup_parts  the first part for them, and how many there are
--             $rest_parts  how many parts there are for all other kinds, which begin with 0
--             $earliest, $latest, $year  between which instants an event lies, and a length of time, in microseconds
--             reads from `event`, which ingest_lines.sql or ingest_lists.sql defines before it
-- Example:    part of the ingest; see `replay/audit/ingest.py`
, told as (
  select
    *,
    epoch_us(try_cast(regexp_extract(requestReceivedTimestamp, '^\d{4}-\d\d-\d\dT.*') as timestamptz)) as received_us,
    epoch_us(try_cast(regexp_extract(stageTimestamp, '^\d{4}-\d\d-\d\dT.*') as timestamptz)) as stage_us,
    -- kcp: the logical cluster of the request, under the name that its release gives the annotation, and how its groups and those of
    -- the caller confine an impersonated user. A request to all clusters at once is to none.
    if(
      contains(annotations::varchar, 'kcp.'),
      coalesce(
        nullif(
          coalesce(
            annotations ->> '$."kcp.io/cluster"',
            annotations ->> '$."tenancy.kcp.io/workspace"',
            annotations ->> '$."tenancy.kcp.dev/workspace"'
          ),
          '*'
        ),
        ''
      ),
      ''
    ) as workspace,
    json_extract_string(
      responseObject,
      [
        '$.kind', '$.metadata.name', '$.metadata.uid', '$.metadata.resourceVersion', '$.metadata.ownerReferences',
        '$.spec.priorityClassName', '$.spec.ingressClassName', '$.spec.storageClassName', '$.details.uid'
      ]
    ) as response
  from event
), judged as (
  select
    *,
    coalesce(stage_us, received_us) as moment,
    -- A shard that an export's virtual workspace asks is told the identity of the export after a colon.
    if(workspace <> '', split_part(coalesce(objectRef.resource, ''), ':', 1), coalesce(objectRef.resource, '')) as resource,
    coalesce(objectRef.apiGroup, '') as api_group,
    coalesce(objectRef."namespace", '') as "namespace",
    coalesce(
      nullif(objectRef."name", ''),
      case when verb = 'create' and coalesce(responseStatus.code, 0) between 200 and 299 then response[2] end,
      ''
    ) as object_name,
    case
      when coalesce(kind, apiVersion, auditID, level, stage, verb, items::varchar) is null then 'malformed'
      when kind = 'EventList' and items is not null then if(apiVersion = 'audit.k8s.io/v1', 'list', 'another apiVersion')
      when kind is distinct from 'Event' then 'not an event'
      when apiVersion is distinct from 'audit.k8s.io/v1' then 'another apiVersion'
      when coalesce(auditID, '') = '' or coalesce(verb, '') = '' then 'incomplete'
      when stage is null or stage not in ('RequestReceived', 'ResponseStarted', 'ResponseComplete', 'Panic') then 'incomplete'
      when moment is null then 'incomplete'
      -- Version 1 of the audit API came in 2017; a request is answered within a year.
      when moment not between $earliest and $latest then 'implausible time'
      when abs(received_us - moment) > $year then 'implausible time'
      when workspace <> '' and (
        -- What a proxy in front of a shard logs of a request to a workspace that is being initialized.
        verb = 'post' and objectRef is null and requestURI like '/clusters/%'
        -- What an export's virtual workspace logs of a write: it authorized it, and the shard, which says how, decided it.
        or verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
          and (annotations ->> '$."authorization.k8s.io/decision"') = 'allow'
          and not is_master and not contains(annotations::varchar, '"request.auth.kcp.io/')
      ) then 'sent on'
    end as reject
  from (
    select
      *,
      workspace <> ''
        and list_contains(coalesce(from_json("user" -> '$.groups', '["VARCHAR"]'), []), 'system:masters') as is_master
    from told
  )
), named as (
  select
    *,
    md5_number_lower(concat_ws(
      chr(0), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"),
      if(verb = 'deletecollection' or object_name = '', 'audit id ' || coalesce(auditID, row_id::varchar), object_name),
      nullif(workspace, '')
    )) as identity
  from judged
)
select
  case
    when reject is not null then -1
    when verb = 'deletecollection' or list_contains($looked_up, concat_ws('.', resource, nullif(api_group, '')))
      then $lookups_from + identity % $lookup_parts
    else identity % $rest_parts
  end::bigint as part,
  identity,
  row_id,
  file_id,
  list_row,
  reject,
  if(reject = 'list', items, null) as items,
  if(reject is null, moment, 0) * 1024 + (md5_number_lower(coalesce(auditID, '')) % 1024)::bigint as seq,
  auditID as audit_id,
  coalesce(level, '') as level,
  stage,
  verb,
  coalesce(requestURI, '') as request_uri,
  coalesce(userAgent, '') as user_agent,
  coalesce(sourceIPs, []) as source_ips,
  coalesce(json_extract_string("user", '$.username'), '') as caller,
  impersonatedUser is not null as impersonated,
  workspace,
  if(workspace <> '', coalesce(annotations ->> '$."kcp.io/path"', ''), '') as workspace_path,
  workspace <> '' and impersonatedUser is not null and not is_master as scoped,
  coalesce(json_extract_string(coalesce(impersonatedUser, "user"), '$.username'), '') as username,
  coalesce(impersonatedUser, "user") as "user",
  api_group,
  coalesce(if(kind = 'Event' and apiVersion = 'audit.k8s.io/v1', objectRef.apiVersion, apiVersion), '') as api_version,
  resource,
  coalesce(objectRef.subresource, '') as subresource,
  "namespace",
  coalesce(objectRef."name", '') as "name",
  object_name,
  coalesce(objectRef.uid, '') as object_uid,
  coalesce(objectRef.resourceVersion, '') as object_resource_version,
  coalesce(responseStatus.code, 0) as code,
  coalesce(responseStatus.status, '') as status,
  coalesce(responseStatus.reason, '') as status_reason,
  coalesce(responseStatus.message, '') as status_message,
  coalesce(response[1], '') as response_kind,
  coalesce(response[3], '') as response_uid,
  coalesce(response[4], '') as response_resource_version,
  if(
    verb = 'create' and coalesce(objectRef.subresource, '') = '',
    if(coalesce(responseStatus.code, 0) between 200 and 299, try_cast(response[5] as json), requestObject -> '$.metadata.ownerReferences'),
    null
  ) as owners,
  case
    when (
      verb = 'create' and coalesce(objectRef.subresource, '') = '' and coalesce(responseStatus.code, 0) between 200 and 299
      and concat_ws('.', resource, nullif(api_group, '')) in ('pods', 'persistentvolumeclaims', 'ingresses.networking.k8s.io')
      and requestObject is not null and responseObject is not null
    ) is not true then null
    when resource = 'pods' then
      if(requestObject ->> '$.spec.priorityClassName' is null, coalesce(response[6], ''), null)
    when
      coalesce(
        requestObject ->> '$.spec.ingressClassName',
        requestObject ->> '$.spec.storageClassName',
        json_extract_string(requestObject, '$.metadata.annotations."kubernetes.io/ingress.class"'),
        json_extract_string(requestObject, '$.metadata.annotations."volume.beta.kubernetes.io/storage-class"')
      ) is null
      then coalesce(response[7], response[8], '')
  end as default_class,
  if(
    verb = 'delete' and coalesce(objectRef.subresource, '') = '' and coalesce(responseStatus.code, 0) between 200 and 299,
    coalesce(nullif(response[3], ''), response[9], nullif(objectRef.uid, ''), requestObject ->> '$.preconditions.uid'),
    null
  ) as deleted_uid,
  make_timestamp(if(reject is null, coalesce(received_us, stage_us), null)) as received,
  make_timestamp(if(reject is null, moment, null)) as stage_time,
  annotations,
  requestObject as request_object,
  responseObject as response_object
from named
