-- What:       the files of a log with the time that each covers (microseconds) and the number of their requests
-- Parameters: none
-- Example:    execute log_files
select file, epoch_us(min(received)) as first, epoch_us(max(stage_time)) as last, count(*) as requests
from request
group by file
order by first, file
