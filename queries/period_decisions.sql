-- What:       What each policy and webhook did in a period, by step of time, user, namespace and resource, as the log records
--             it. For kcp the rows are by request, because policies with one name belong to many workspaces
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
--             step        its steps in microseconds
--             by_request  whether each request has rows of its own
--             namespaces  a variable: patterns of namespaces, one a line, to read only their requests
-- Example:    replace $start by 0, $end by 4102444800000000, $step by 86400000000 and $by_request by false
select
  action, policy, epoch_us(stage_time) // $step * $step as start, username, "namespace",
  if(api_group = '', resource, resource || '.' || api_group) || if(subresource = '', '', '/' || subresource) as resource,
  if($by_request, audit_id, '') as request,
  count(distinct audit_id) as requests, min(epoch_us(stage_time)) as first, max(epoch_us(stage_time)) as last
from decision
where
  epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
  and (getvariable('namespaces') is null or len(list_filter(string_split(getvariable('namespaces'), chr(10)), lambda each: "namespace" glob each)) > 0)
group by all
order by all
