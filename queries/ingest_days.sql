-- What:       The days of the events that an ingest has just written, with their counts and the time of the last one
-- Parameters: none; reads the view `new_row`
-- Example:    part of the ingest; see `replay/audit/segment.py`
select stage_time::date as day, count(*) as events, epoch_us(max(stage_time)) as last from new_row group by all
