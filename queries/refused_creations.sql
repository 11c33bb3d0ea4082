-- What:       Creations for an owner that the server refused to components of the cluster: position in the log, user, status,
--             and the owner's uid
-- Parameters: none
-- Needs:      verb = 'create' and code >= 400 and owners is not null
-- Example:    execute refused_creations
select
  seq, username, code, status_message, status_reason,
  owners ->> '$[0].uid' as owner
from request
where
  verb = 'create' and subresource = '' and code >= 400 and username like 'system:%'
  and owners ->> '$[0].uid' is not null
order by seq
