-- What:       when objects with certain uids were deleted, in microseconds since the epoch
-- Parameters: $uids  the uids, as a JSON list
-- Example:    execute owner_ends with $uids: '["0e1c..."]'
select deleted_uid as uid, min(epoch_us(stage_time)) as ended
from request
where deleted_uid in (select unnest(from_json(cast($uids as varchar), '["VARCHAR"]')))
group by uid
order by uid
