-- What:       the files of a log with the time in which they were written (microseconds) and how many requests they hold
-- Parameters: none
-- Example:    execute log_files
select file, epoch_us(min(stage_time)) as first, epoch_us(max(stage_time)) as last, count(*) as requests
from request
group by file
order by first, file
