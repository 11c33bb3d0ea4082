-- What:       how many rows each file gave in each batch in which it was read
-- Parameters: $paths  list of Parquet files just written
-- Example:    part of the ingest; see `replay/audit/ingest.py`
select
  file_id,
  min(row_id) as first_row,
  count(*) as lines,
  count(*) filter (reject is null) as events,
  count(*) filter (reject = 'list') as lists,
  count(*) filter (reject = 'malformed') as malformed
from read_parquet($paths, hive_partitioning = false)
group by file_id, list_row is null, row_id >> 40
having list_row is null
