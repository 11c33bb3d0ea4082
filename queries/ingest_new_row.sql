-- What:       The view `new_row`: the events that an ingest has just written, without those with an implausible time
-- Parameters: the variable new_rows, a list of Parquet files
--             the variable implausible_days, a list of dates, or unset
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view new_row as
select * from read_parquet(getvariable('new_rows'), hive_partitioning = false) 
where
  reject is null
  and (getvariable('implausible_days') is null or not list_contains(getvariable('implausible_days'), stage_time::date))
