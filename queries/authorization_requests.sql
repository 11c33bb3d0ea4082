-- What:       Every request with the number of its question (`authorization_questions`), its times in microseconds since the
--             epoch, and the authorizers' decision as the log records it
-- Parameters: $within  an SQL expression over `request`, true for all
-- Example:    execute authorization_requests(within := true)
select
  seq,
  audit_id,
  epoch_us(received) as received,
  epoch_us(stage_time) as stage_time,
  hash("user"::varchar, verb, request_uri) as question,
  code,
  annotations ->> '$."authorization.k8s.io/decision"' as decision,
  annotations ->> '$."authorization.k8s.io/reason"' as reason
from request
where $within
order by seq, audit_id
