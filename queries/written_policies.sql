-- What:       Successful writes of policies, bindings and webhook configurations through the API, in the order of time:
--             whether they create (code 201), and when they were received and answered in microseconds since the epoch
-- Parameters: none
-- Needs:      api_group = 'admissionregistration.k8s.io'
-- Example:    execute written_policies
select
  resource, object_name as name, verb, code, epoch_us(received) as received, epoch_us(stage_time) as stage_time
from request
where
  api_group = 'admissionregistration.k8s.io' and verb in ('create', 'update', 'patch', 'delete') and subresource = '' and object_name <> ''
  and code between 200 and 299 and not is_dry_run(verb, request_uri, request_object)
order by stage_time, seq
