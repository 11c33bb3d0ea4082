-- What:       when objects with certain uids were deleted, in microseconds since the epoch
-- Parameters: $uids  the uids, as a JSON list
-- Example:    execute owner_ends with $uids: '["0e1c..."]'
select uid, min(ended) as ended
from (
  select
    coalesce(
      nullif(response_uid, ''), response_object ->> '$.details.uid', nullif(object_uid, ''), request_object ->> '$.preconditions.uid'
    ) as uid,
    epoch_us(stage_time) as ended
  from request
  where verb = 'delete' and subresource = '' and code between 200 and 299
)
where uid in (select unnest(from_json(cast($uids as varchar), '["VARCHAR"]')))
group by uid
order by uid
