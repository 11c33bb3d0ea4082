-- What:       The bodies of all requests about Secrets. Redaction looks for their values in texts
-- Parameters: none
-- Example:    cd STORE && duckdb -init open.sql
select "namespace", object_name, request_object::varchar as request_object, response_object::varchar as response_object
from request
where resource = 'secrets' and (request_object is not null or response_object is not null)
