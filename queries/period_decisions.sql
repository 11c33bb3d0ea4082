-- What:       what each policy and webhook did in a period, by step of time, user, namespace and resource, as the log tells it
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
--             step        its steps in microseconds
-- Example:    replace $start by 0, $end by 4102444800000000 and $step by 86400000000
select
  action, policy, epoch_us(stage_time) // $step * $step as start, username, "namespace",
  if(api_group = '', resource, resource || '.' || api_group) || if(subresource = '', '', '/' || subresource) as resource,
  count(distinct audit_id) as requests, min(epoch_us(stage_time)) as first, max(epoch_us(stage_time)) as last
from decision
where epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
group by all
order by all
