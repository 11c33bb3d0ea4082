-- What:       The rows that are no events, with the reason
-- Parameters: $paths  list of the Parquet files of part -1
-- Example:    part of the ingest; see `replay/audit/ingest.py`
select file_id, coalesce(list_row, row_id) as line_row, reject, coalesce(audit_id, '') as audit_id
from read_parquet($paths, hive_partitioning = false)
where reject is not null and reject <> 'list'
order by row_id
