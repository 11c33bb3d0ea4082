-- What:       Objects that end differently because the candidate's authorizers decide differently: those of the given
--             requests, and those that a request did not find although a given request without a name may have created them
--             (`missed`). `created` are such creations in the same namespace, in order.
-- Parameters: $requests  the `seq` of the requests
-- Example:    set variable requests = [1795578672424642]; execute gated(requests := getvariable('requests'))
with own as (
  select * from request where seq in (select unnest($requests::bigint[]))
), unnamed as (
  select api_group, resource, "namespace", workspace, list({'seq': seq, 'audit_id': audit_id} order by seq) as created
  from own
  where verb = 'create' and subresource = '' and object_name = '' and code = 403
    and not is_dry_run(verb, request_uri, request_object)
  group by all
), found as (
  select own.*, false as missed, unnamed.created
  from own left join unnamed using (api_group, resource, "namespace", workspace)
  union all by name
  select request.*, true as missed, unnamed.created
  from request join unnamed using (api_group, resource, "namespace", workspace)
  where request.code = 404 and request.seq > unnamed.created[1].seq and request.object_name <> ''
)
select distinct
  api_group, resource, "namespace",
  concat_ws(
    chr(31), api_group, resource, if(resource = 'namespaces' and api_group = '', '', "namespace"),
    if(object_name = '', 'audit id ' || audit_id, object_name), nullif(workspace, '')
  ) as key,
  created
from found
order by all
