-- What:       the view `old_row` of the first ingest of a store: nothing
-- Parameters: none
-- Example:    part of the ingest; see `replay/audit/segment.py`
create or replace temp view old_row as select * from new_row where false
