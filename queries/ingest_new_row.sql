-- What:       the view `new_row`: the events that an ingest has just written
-- Parameters: the variable new_rows, a list of Parquet files
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view new_row as
select * from read_parquet(getvariable('new_rows'), hive_partitioning = true) where reject is null
