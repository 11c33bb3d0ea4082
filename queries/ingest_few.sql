-- What:       the rows of a store that has few of them, held in memory under the view that all questions begin with: reading
--             them anew is most of what a question about few rows takes
-- Parameters: none; reads the view `counted_row` of ingest_views.sql, and takes its place
-- Example:    part of every question to a small log; see `replay/audit/store.py`
create or replace temp table few_row as from counted_row;

create or replace temp view counted_row as from few_row;
