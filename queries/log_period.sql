-- What:       How many requests a log has, and from when to when
-- Parameters: none
-- Example:    replay sql log_period --store STORE
select count(*) as requests, min(received) as first, max(stage_time) as last from request
