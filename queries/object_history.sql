-- What:       The rows of the requests that a predicate selects, and of the earlier writes that show the state of the same
--             objects (`selected` is false). They are ordered by object, and objects by their first selected request, so that
--             requests with the same lookups are neighbours. A write counts if it succeeded, or if the log does not tell
--             whether it did. Clocks of API servers differ: writes up to five seconds after the last selected request are
--             included. A creation needs no earlier writes. The requests that admission saw and that the predicate does not
--             select come last (`is_other`), in order. The result has row numbers only: it is cheaper to read the rows
--             afterwards.
-- Parameters: $predicate  an SQL expression over `request` (`replay/matching/coarse.py` makes one of two manifest sets)
--             $within     one that limits the selected and the other requests
--             $others     one that chooses among the other requests: false for none of them
--             $share      one that chooses whole objects
--             the variables store_rows and store_dropped, as `open.sql` of each store sets them
-- Example:    replace $predicate by: verb = 'update' and resource = 'pods', $within and $share by: true, and $others by: false
with told as materialized (
  select
    row_id, identity, seq, audit_id, verb,
    coalesce($predicate, false) as is_matched,
    coalesce($within, false) as is_within,
    verb in ('create', 'update', 'patch', 'delete')
      and (code between 200 and 299 or code >= 500 or code = 0)
      and subresource not in ('attach', 'exec', 'portforward', 'proxy', 'token', 'log') as is_write,
    (
      verb in ('create', 'update', 'patch', 'delete', 'deletecollection')
      or subresource in ('attach', 'exec', 'portforward', 'proxy')
    ) and $others as is_wanted
  from read_parquet(getvariable('store_rows'), hive_partitioning = false) as stored
  anti join read_parquet(getvariable('store_dropped'), hive_partitioning = false) as dropped using (row_id)
  where reject is null and $share
), chosen as (
  select identity, min(seq) as since, max(seq) filter (verb <> 'create') + 5000000::bigint * 1024 as until
  from told where is_matched and is_within group by identity
), numbered as (
  select row_id, is_matched and is_within as selected, false as is_other, since, told.identity, seq, audit_id
  from told
  join chosen on told.identity = chosen.identity
  where (is_matched and is_within) or (is_write and seq <= until)
  union all
  select row_id, true, true, null, null, seq, audit_id
  from told
  where not is_matched and is_within and is_wanted
)
select row_id, selected, is_other from numbered order by is_other, since, identity, seq, audit_id
