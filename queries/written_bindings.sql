-- What:       the bindings of policies and the webhook configurations that the log wrote through the API, with the time of the first
--             write of each in microseconds since the epoch; a policy without a binding does nothing
-- Parameters: none
-- Example:    execute written_bindings
select resource, object_name as name, epoch_us(min(stage_time)) as since
from request
where
  api_group = 'admissionregistration.k8s.io' and verb in ('create', 'update', 'patch', 'delete') and subresource = '' and object_name <> ''
  and (resource like '%bindings' or resource like '%webhookconfigurations') and code between 200 and 299 and not is_dry_run(verb, request_uri, request_object)
group by all
order by since, resource, name
