-- What:       the numbers of the rows of requests that admission saw and a predicate does not select, in order
-- Parameters: $predicate  an SQL expression over `request`
--             $within     another one, which does select them
--             $share      another one, which chooses whole objects
--             $only_failed  true to leave out those that succeeded
--             the variables store_rows and store_dropped, as `open.sql` of each store sets them
-- Example:    replace $predicate by: resource = 'pods', $within and $share by: true, and $only_failed by: false
select row_id, true as selected
from read_parquet(getvariable('store_rows'), hive_partitioning = false) as stored
anti join read_parquet(getvariable('store_dropped'), hive_partitioning = false) as dropped using (row_id)
where
  reject is null
  and not coalesce($predicate, false)
  and $within
  and $share
  and (
    verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
    or subresource in ('attach', 'exec', 'portforward', 'proxy')
  )
  and not ($only_failed and code between 200 and 299)
order by seq, audit_id
