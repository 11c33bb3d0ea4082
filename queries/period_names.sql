-- What:       the users and namespaces of the requests that admission saw in a period
-- Parameters: start, end  the period in microseconds since the epoch, the end not included
--             workspaces  a variable: logical clusters of kcp, one a line, if not all requests are asked about
--             namespaces  a variable: patterns of namespaces, one a line, if not all requests are asked about
-- Example:    replace $start by 0 and $end by 4102444800000000
select distinct username, "namespace"
from request
where
  epoch_us(stage_time) >= $start and epoch_us(stage_time) < $end
  and (getvariable('workspaces') is null or list_contains(string_split(getvariable('workspaces'), chr(10)), workspace))
  and (getvariable('namespaces') is null or len(list_filter(string_split(getvariable('namespaces'), chr(10)), lambda each: "namespace" glob each)) > 0)
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
order by all
