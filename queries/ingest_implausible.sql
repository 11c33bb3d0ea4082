-- What:       The rows of events with an implausible time, in the columns of ingest_superseded.sql
-- Parameters: the variables new_rows, a list of Parquet files, and implausible_days, a list of dates
-- Example:    part of the ingest; see `replay/audit/segment.py`
select row_id, coalesce(list_row, row_id) as line_row, file_id, part, audit_id, 'implausible time' as reason
from read_parquet(getvariable('new_rows'), hive_partitioning = false)
where reject is null and list_contains(getvariable('implausible_days'), stage_time::date)
order by row_id
