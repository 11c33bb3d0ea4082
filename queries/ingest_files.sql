-- What:       How many rows each file gave in each batch
-- Parameters: $paths  list of Parquet files just written
-- Example:    part of the ingest; see `replay/audit/ingest.py`
select
  file_id,
  min(coalesce(list_row, row_id)) as first_row,
  count(distinct list_row) + count(*) filter (list_row is null) as lines,
  count(*) filter (reject is null) as events,
  count(*) filter (reject = 'list') as lists,
  count(*) filter (reject = 'malformed') as malformed
from read_parquet($paths, hive_partitioning = false)
-- What was taken out of an EventList afterwards stands in a batch of its own.
where coalesce(list_row, row_id) >> 40 = row_id >> 40
group by file_id, row_id >> 40
