-- What:       The different questions to the authorizers, with a number and a count for each
-- Parameters: none
-- Example:    execute authorization_questions
select
  hash("user"::varchar, verb, request_uri) as question,
  any_value("user"::varchar) as asker,
  any_value(verb) as verb,
  any_value(request_uri) as request_uri,
  count(*) as requests
from request
group by question
order by question
