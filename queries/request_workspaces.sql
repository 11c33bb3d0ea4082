-- What:       The workspace of each request to kcp, its resource, and its times in microseconds since the epoch
-- Parameters: none
-- Example:    replay sql request_workspaces --store STORE
select audit_id, workspace, api_group, resource, epoch_us(received) as received, epoch_us(stage_time) as stage_time
from request
where workspace <> ''
order by seq, audit_id
