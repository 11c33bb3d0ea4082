-- What:       the longest times in which nothing is logged (microseconds), longest first
-- Parameters: $at_least  how long a silence is, in seconds
-- Example:    execute log_silences with 60
with heard as (
  select received, max(stage_time) over (order by received, seq rows between unbounded preceding and 1 preceding) as until
  from request
)
select epoch_us(until) as since, epoch_us(received) as until
from heard
where received - until > to_seconds($at_least)
order by received - until desc, since
limit 10
