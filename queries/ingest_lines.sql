-- What:       One row for each line (or document) of audit logs, not checked yet. `row_id` numbers them in the order of the
--             files.
-- Parameters: $files    list of paths
--             $format   newline_delimited, unstructured (documents over several lines) or array
--             $compression  none, gzip or zstd
--             $tolerant true where a line that is no JSON object is to become a row of nulls (newline_delimited only)
--             $longest  the size of the longest document in bytes (lines may be longer)
--             $columns  the fields that are read, those of an event (`replay/audit/format/wrapper.py`) or of what wraps it
--             $first_row, $first_file  numbers of the first row and of the first file
-- Example:    part of the ingest; see `replay/audit/ingest.py`
select
  row_number() over () - 1 + $first_row::bigint as row_id,
  (file_index + $first_file)::integer as file_id,
  * exclude (filename),
  null::bigint as list_row
from read_json(
  $files,
  format = $format,
  compression = $compression,
  ignore_errors = $tolerant,
  filename = true,
  -- A directory called COLUMN=VALUE says nothing about what is in the file.
  hive_partitioning = false,
  maximum_object_size = $longest,
  columns = $columns
)
