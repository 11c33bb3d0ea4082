-- What:       the rows of the requests that a predicate selects, and of the writes that tell the state of the same objects
--             before them (`selected` false): by object, in order, and objects by their first selected request, so that those
--             that look up the same follow each other. A write counts where it succeeded, or where nobody can
--             tell. Clocks of API servers differ: writes up to five seconds after the last selected one are included.
--             A creation finds nothing: what was there before it is not looked for.
--             Then, `is_other`, the requests that admission saw and the predicate does not select, in order.
--             Only numbers of rows are answered: reading the rows themselves is cheaper once it is known which.
-- Parameters: $predicate  an SQL expression over `request` (`replay/matching/coarse.py` makes one of two manifest sets)
--             $within     another one, without which nothing is selected, nor is it one of the others
--             $others     another one, which chooses among the others: false to leave them all out
--             $share      another one, which chooses whole objects
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
