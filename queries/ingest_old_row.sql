-- What:       The view `old_row`: rows that counted before an ingest and are about the same requests as the new rows. A store
--             that grows for weeks has many rows, and only few of them are about these requests.
-- Parameters: none; reads the view `new_row`
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view old_row as
select * from counted_row where audit_id in (select audit_id from new_row)
