-- What:       when the log ends, in microseconds since the epoch
-- Parameters: none
-- Example:    execute log_end
select epoch_us(max(stage_time)) as ended from request
