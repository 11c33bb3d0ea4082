-- What:       requests that admission saw in a period, by step of time
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
--             step        its steps in microseconds
--             workspaces  a variable: logical clusters of kcp, one a line, if not all requests are asked about
--             namespaces  a variable: patterns of namespaces, one a line, if not all requests are asked about
-- Example:    replace $start by 0, $end by 4102444800000000 and $step by 86400000000
select epoch_us(stage_time) // $step * $step as start, count(*) as requests
from request
where
  epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
  and (getvariable('workspaces') is null or list_contains(string_split(getvariable('workspaces'), chr(10)), workspace))
  and (getvariable('namespaces') is null or len(list_filter(string_split(getvariable('namespaces'), chr(10)), lambda each: "namespace" glob each)) > 0)
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
group by all
order by all
