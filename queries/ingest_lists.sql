-- What:       The events in EventLists of a webhook backend, in the columns of ingest_lines.sql. An item has no kind and
--             apiVersion if the list states them for all.
-- Parameters: $lists      list of Parquet files with rows of ingest_request.sql whose `reject` is 'list'
--             $structure  the columns of an event, as json_transform takes them
--             $first_row  number of the first row
-- Example:    part of the ingest; see `replay/audit/ingest.py`
select
  row_number() over () - 1 + $first_row::bigint as row_id,
  file_id,
  event.* replace (
    coalesce(event.kind, 'Event') as kind,
    coalesce(event.apiVersion, list_version) as apiVersion,
    null::JSON as items
  ),
  list_row
from (
  select
    file_id,
    coalesce(list_row, row_id) as list_row,
    api_version as list_version,
    json_transform(unnest(from_json(items, '["JSON"]')), '$structure') as event
  from read_parquet($lists, hive_partitioning = false)
  where reject = 'list'
)
