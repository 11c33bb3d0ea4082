-- What:       The first lines of a zstd file that are not blank, or the beginning of a longer line
-- Parameters: $file   the path
--             $bytes  how many characters of a line to read
--             $longest  how many bytes a line has at most, in digits
--             $buffer  how many bytes are decompressed at a time, in digits; two such lines at least
-- Example:    part of the ingest; see `replay/audit/format/recognise.py`
select line[:$bytes]
from read_csv(
  $file, auto_detect = false, columns = {line: 'VARCHAR'}, compression = 'zstd', delim = chr(1), quote = '', escape = '',
  header = false, strict_mode = false, hive_partitioning = false, parallel = false, buffer_size = $buffer, max_line_size = $longest
)
where line is not null
limit 32
