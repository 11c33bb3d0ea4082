-- What:       the columns of documents that stood in something else; one that is damaged becomes a row of nulls.
-- Parameters: $documents  rows of `document` with `file_id` and `line_row`, the number of the row of its line
--             $structure  the columns, as json_transform takes them
--             $told       what is selected of them
--             $first_row  number of the first row
-- Example:    part of the ingest; see `replay/audit/format/form.py`
select
  row_number() over () - 1 + $first_row::bigint as row_id,
  file_id,
  $told,
  line_row as list_row
from (
  select
    file_id,
    line_row,
    -- Text that begins like no object is another line of the same log, not a damaged event.
    try(json_transform(if(starts_with(ltrim(document), '{'), document, if(document is null, null, '{}')), '$structure')) as told
  from ($documents)
)
