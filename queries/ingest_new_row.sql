-- What:       the view `new_row`: the events that an ingest has just written, but for those whose time is implausible
-- Parameters: the variable new_rows, a list of Parquet files
--             the variable implausible_days, a list of dates, or unset
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view new_row as
select * from read_parquet(getvariable('new_rows'), hive_partitioning = false) 
where
  reject is null
  and (getvariable('implausible_days') is null or not list_contains(getvariable('implausible_days'), stage_time::date))
