-- What:       on which days the events are that an ingest has just written, and how many there are on each
-- Parameters: none; reads the view `new_row`
-- Example:    part of the ingest; see `replay/audit/segment.py`
select stage_time::date as day, count(*) as events from new_row group by all
