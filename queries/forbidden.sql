-- What:       What the authorizers refused in a period, by user, verb and resource, with requests that failed in them
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
--             workspaces  a variable: logical clusters of kcp, one a line, to read only their requests
--             namespaces  a variable: patterns of namespaces, one a line, to read only their requests
-- Example:    replace $start by 0 and $end by 4102444800000000
select
  username,
  verb,
  case when resource = '' then split_part(request_uri, '?', 1) else concat_ws('/', nullif(concat_ws('.', resource, nullif(api_group, '')), ''), nullif(subresource, '')) end as target,
  count(*) as requests
from request
where
  epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
  and (getvariable('workspaces') is null or list_contains(string_split(getvariable('workspaces'), chr(10)), workspace))
  and (getvariable('namespaces') is null or len(list_filter(string_split(getvariable('namespaces'), chr(10)), lambda each: "namespace" glob each)) > 0)
  and (
    (annotations ->> '$."authorization.k8s.io/decision"') = 'forbid'
    or ((annotations ->> '$."authorization.k8s.io/decision"') is null and (annotations ->> '$."authorization.k8s.io/reason"') = 'internal error')
  )
group by all
order by requests desc, username, verb, target
