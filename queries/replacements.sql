-- What:       For some updates: the object that they replaced, when the log's last write to it before the update was received,
--             and when the updates were answered, in microseconds. Writes that the log lacks lie in between
-- Parameters: $updates  the `seq` of the updates
-- Example:    set variable updates = [1795578672424642]; execute replacements(updates := getvariable('updates'))
select
  one.api_group, one.resource, one."namespace", one."name", one.workspace,
  epoch_us(max(earlier.received)) as since, epoch_us(one.stage_time) as answered
from request as one
join request as earlier on earlier.identity = one.identity and earlier.seq < one.seq
where
  one.seq in (select unnest($updates::bigint[]))
  and one.verb = 'update'
  and earlier.verb in ('create', 'update', 'patch', 'delete')
  and earlier.code between 200 and 299
  and not is_dry_run(earlier.verb, earlier.request_uri, earlier.request_object)
group by one.audit_id, one.api_group, one.resource, one."namespace", one."name", one.workspace, one.stage_time
order by all
