-- What:       How long slow requests waited for webhooks, by phase. The server records it for requests of more than half a
--             second
-- Parameters: none
-- Example:    execute webhook_waits
select
  annotations ->> '$."apiserver.latency.k8s.io/mutating-webhook"' as mutating,
  annotations ->> '$."apiserver.latency.k8s.io/validating-webhook"' as validating
from request
where
  annotations ->> '$."apiserver.latency.k8s.io/mutating-webhook"' is not null
  or annotations ->> '$."apiserver.latency.k8s.io/validating-webhook"' is not null
