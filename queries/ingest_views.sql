-- What:       The views of a store: `request` (one row for each request, which all queries read), `reject` (lines that were
--             not used) and `file` (the files of the log). `queries/README.md` describes their columns.
-- Parameters: the variables store_rows, store_dropped, store_rejects and store_files: lists of the store's Parquet files;
--             `open.sql` of each store sets them
-- Example:    cd STORE && duckdb -init open.sql
-- Whether the URL of a request says that it stores nothing. It decides for all writes but deletions.
create or replace temp macro is_dry_run_url(request_uri) as contains(request_uri, 'dryRun=');

-- Whether a request stores nothing. A deletion with a body has its options there alone (`handlers.DeleteResource`), as
-- `replay.reconstruct.record.exchange.is_dry_run` states it.
create or replace temp macro is_dry_run(verb, request_uri, request_object) as if(
  verb in ('delete', 'deletecollection') and request_object is not null,
  contains(request_object::varchar, 'dryRun') and coalesce(json_array_length(request_object, '$.dryRun'), 0) > 0,
  is_dry_run_url(request_uri)
);

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
