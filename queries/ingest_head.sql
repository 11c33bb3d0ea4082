-- What:       the first lines of a zstd file that are not blank, or of a longer line its beginning
-- Parameters: $file   the path
--             $bytes  how many characters of a line are wanted
-- Example:    part of the ingest; see `replay/audit/format/head.py`
select line[:$bytes]
from read_csv(
  $file, auto_detect = false, columns = {line: 'VARCHAR'}, compression = 'zstd', delim = chr(1), quote = '', escape = '',
  header = false, strict_mode = false, hive_partitioning = false, buffer_size = 33554432, max_line_size = 16777216
)
where line is not null
limit 32
