-- What:       The longest times without a request (microseconds), longest first
-- Parameters: $at_least  how long a silence is, in seconds
-- Example:    execute log_silences with 60
with heard as (
  select received, lag(received) over (order by received) as before from request
)
select epoch_us(before) as since, epoch_us(received) as until
from heard
where received - before > to_seconds($at_least)
order by received - before desc, since
limit 10
