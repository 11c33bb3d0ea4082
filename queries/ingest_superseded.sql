-- What:       The rows that do not count because another row is about the same request: an earlier stage ('superseded'), the
--             same stage again ('duplicate'), or the same stage with other content ('conflicting'). The last stage counts. Of
--             equal stages, the one that the store had before counts, then the one with the highest level.
-- Parameters: none; reads the views `new_row` (rows just written) and `old_row` (rows that counted before)
-- Example:    part of the ingest; see `replay/audit/ingest.py`
with told as (
  select audit_id, stage, level, seq, code, verb, request_uri, row_id, coalesce(list_row, row_id) as line_row, file_id, part, true as is_new
  from new_row
  union all
  select audit_id, stage, level, seq, code, verb, request_uri, row_id, coalesce(list_row, row_id) as line_row, file_id, part, false as is_new
  from old_row
), repeated as (
  select hash(audit_id) as h from told group by all having count(*) > 1
), ranked as (
  select
    *,
    array_position(['RequestReceived', 'ResponseStarted', 'Panic', 'ResponseComplete'], stage) as stage_rank,
    row_number() over counted as place,
    first_value((stage, level, seq, code, verb, request_uri)) over counted as kept,
    first_value(stage) over counted as kept_stage
  from told
  where hash(audit_id) in (select h from repeated)
  window counted as (
    partition by audit_id
    order by
      array_position(['RequestReceived', 'ResponseStarted', 'Panic', 'ResponseComplete'], stage) desc,
      is_new,
      array_position(['None', 'Metadata', 'Request', 'RequestResponse'], level) desc,
      seq, code, verb, request_uri, row_id
  )
)
select
  row_id, line_row, file_id, part, audit_id,
  case
    when stage <> kept_stage then 'superseded'
    when (stage, level, seq, code, verb, request_uri) = kept then 'duplicate'
    else 'conflicting'
  end as reason
from ranked
where place > 1
order by row_id
