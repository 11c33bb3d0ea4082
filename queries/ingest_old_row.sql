-- What:       the view `old_row`: what counted before an ingest
-- Parameters: none
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view old_row as select * from counted_row
