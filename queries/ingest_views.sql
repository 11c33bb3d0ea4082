-- What:       the views of a store: `request` (one row a request, the table that all questions are asked of), `reject` (lines
--             that were not used) and `file` (what was read). `queries/README.md` describes their columns.
-- Parameters: the variables store_rows, store_dropped, store_rejects and store_files: lists of the store's Parquet files;
--             `open.sql` of each store sets them
-- Example:    cd STORE && duckdb -init open.sql
create or replace temp view file as
select * from read_parquet(getvariable('store_files'), hive_partitioning = false);

create or replace temp view reject as
select * from read_parquet(getvariable('store_rejects'), hive_partitioning = false);

create or replace temp view counted_row as
select * from read_parquet(getvariable('store_rows'), hive_partitioning = false) as stored
anti join read_parquet(getvariable('store_dropped'), hive_partitioning = false) as dropped using (row_id)
where reject is null;

create or replace temp view request as
select
  counted.* exclude (row_id, file_id, list_row, reject, items),
  file.name as file,
  coalesce(counted.list_row, counted.row_id) - file.first_row + 1 as line
from counted_row as counted
join file using (file_id);
