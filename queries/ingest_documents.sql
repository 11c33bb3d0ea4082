-- What:       The columns of documents that were wrapped in another format. A damaged document becomes a row of nulls.
-- Parameters: $documents  rows of `document` with `file_id` and `line_row`, the number of the row of its line
--             $document   the columns as one value, null for a document that is damaged
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
    $document as told
  from ($documents)
)
