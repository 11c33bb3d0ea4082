-- What:       when a log begins and ends (microseconds since the epoch), and how many requests and files it has
-- Parameters: none
-- Example:    execute log_facts
select epoch_us(min(received)) as first, epoch_us(max(stage_time)) as last, count(*) as requests, count(distinct file) as files
from request
