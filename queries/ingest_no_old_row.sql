-- What:       The view `old_row` of a store's first ingest: empty
-- Parameters: none
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view old_row as select * from new_row where false
