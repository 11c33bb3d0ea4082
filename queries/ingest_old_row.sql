-- What:       the view `old_row`: what counted before an ingest and tells of the same requests as what it has just written.
--             A store that grows for weeks has many rows, of which few do.
-- Parameters: none; reads the view `new_row`
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view old_row as
select * from counted_row where audit_id in (select audit_id from new_row)
