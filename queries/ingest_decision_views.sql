-- What:       the views of what admission did, as the log tells it: `decision` (one row for each denial, audited failure,
--             mutation, ignored failure and annotation) and `decided_request` (one row for each request that has any).
--             The wordings are those of k8s.io/apiserver: `plugin/policy/validating/dispatcher.go`,
--             `plugin/policy/generic/policy_dispatcher.go`, `plugin/webhook/errors/statuserror.go`,
--             `plugin/webhook/mutating/dispatcher.go`; `replay/audit/answer.py` reads one event the same way, and a test
--             holds both together. Where built-in plugins refuse is filled in from `replay/audit/answer.py`.
--             `queries/README.md` describes the columns.
-- Parameters: none; reads the view `request` of ingest_views.sql
-- Example:    cd STORE && duckdb -init open.sql
create or replace temp view decision as
with told as (
  select
    seq, audit_id, stage_time, verb, username, api_group, resource, subresource, "namespace", object_name, code,
    request.file, line,
    if(
      code >= 400,
      regexp_extract(
        status_message,
        '(?s)(?:(ValidatingAdmissionPolicy|policy) [''"]([^''"]*)[''"](?: with binding ''([^'']*)'')? denied request: (.*)'
          || '|(admission webhook|failed calling webhook|failed calling admission webhook) "([^"]*)"'
          || '(?: denied the request(?:: (.*)| without explanation)|(?: failed)?: (.*))'
          || ')',
        ['by_policy', 'policy', 'binding', 'message', 'by_webhook', 'webhook', 'said', 'failure']
      ),
      null
    ) as denial,
    -- The built-in plugin that words its refusals so, by the table of `replay/audit/answer.py`.
    if(code >= 400 and status_message <> '', $refused_by, '') as refused_by,
    status_message,
    try_cast(annotations as map(varchar, varchar)) as annotations
  from request
), denied as (
  select
    * exclude (denial, refused_by, status_message, violations, of_engine, annotations),
    'deny' as action,
    case when denial.by_policy <> '' then 'policy' when denial.by_webhook <> '' then 'webhook' else 'builtin' end as plugin,
    case
      when of_engine is not null then of_engine.policy
      when denial.by_policy || denial.by_webhook <> '' then denial.policy || denial.webhook
      else refused_by
    end as policy,
    case
      when of_engine is not null then denial.webhook
      when denial.by_policy || denial.by_webhook <> '' then denial.binding
      else violations.level
    end as binding,
    null::bigint as expression_index,
    case
      when of_engine is not null then of_engine.message
      when denial.by_policy || denial.by_webhook <> '' then denial.message || denial.said || denial.failure
      when violations.text <> '' then violations.text
      else status_message
    end as message,
    ['Deny'] as validation_actions,
    'responseStatus.message' as source
  from (
    select
      *,
      if(
        refused_by = 'PodSecurity',
        regexp_extract(status_message, '(?s)violates PodSecurity "([^"]*)": (.*)', ['level', 'text']),
        {'level': '', 'text': ''}
      ) as violations,
      -- One row for each policy of an engine that the message names.
      unnest(
        case
          -- Gatekeeper begins the line of a constraint with its name in brackets.
          when denial.webhook = 'validation.gatekeeper.sh' and regexp_matches(denial.said, '^\[[a-z0-9][-a-z0-9.]*\] ') then
            list_transform(
              string_split(regexp_replace(denial.said, '(?:^|\n)\[([a-z0-9][-a-z0-9.]*)\] ', e'\x1e\\1\x1f', 'g'), e'\x1e')[2:],
              lambda part: {'policy': split_part(part, e'\x1f', 1), 'message': substring(part, strpos(part, e'\x1f') + 1)}
            )
          -- Kyverno writes a line for each policy, below it one for each rule with two spaces before it.
          when regexp_matches(denial.webhook, '^(validate|mutate)\.kyverno\.svc-')
            and regexp_matches(denial.said, '(?s)was blocked due to the following policies.*\n  [^\s:]') then
            flatten(
              list_transform(
                string_split(
                  regexp_replace(
                    regexp_extract(denial.said, '(?s)was blocked due to the following policies(.*)', 1),
                    '(?m)^([^\s:][^:\n]*):', e'\x1d\\1\x1f', 'g'
                  ), e'\x1d'
                )[2:],
                lambda each: list_transform(
                  string_split(
                    regexp_replace(
                      substring(each, strpos(each, e'\x1f') + 1),
                      '(?m)^  (?:autogen-(?:cronjob-)?)?([^\s:][^:\n]*):', e'\x1e\\1\x1f', 'g'
                    ), e'\x1e'
                  )[2:],
                  lambda part: {
                    'policy': split_part(each, e'\x1f', 1) || '/' || split_part(part, e'\x1f', 1),
                    'message': trim(substring(part, strpos(part, e'\x1f') + 1), e' \n\'')
                  }
                )
              )
            )
          -- Its policies of CEL are named one after another.
          when regexp_matches(denial.webhook, '^n?[vm]pol\.validate\.kyverno\.svc-')
            and regexp_matches(denial.said, '(?:^|; )Policy [a-z0-9][-a-z0-9.]* (?:failed|error): ') then
            list_transform(
              string_split(
                regexp_replace(
                  denial.said, '(?:^|; )Policy ([a-z0-9][-a-z0-9.]*) (?:failed|error): ', e'\x1e\\1\x1f', 'g'
                ), e'\x1e'
              )[2:],
              lambda part: {'policy': split_part(part, e'\x1f', 1), 'message': substring(part, strpos(part, e'\x1f') + 1)}
            )
          else [null]
        end
      ) as of_engine
    from told
  )
  where denial.by_policy <> '' or denial.by_webhook <> '' or refused_by <> ''
), noted as (
  -- An annotation that only tells of latency, authorization or the like is none of admission's.
  select * exclude (denial, refused_by, status_message, annotations, entry), entry.key as source, entry.value as text
  from (select *, unnest(map_entries(annotations)) as entry from told)
  where
    not regexp_matches(
      entry.key, '^(authorization|authentication|audit|apiserver\.latency)\.k8s\.io/|^authentication\.kubernetes\.io/|^k8s\.io/'
        || '|^((tenancy|request\.auth|sar\.auth)\.)?kcp\.io/'
    )
    and entry.key <> 'pod-security.kubernetes.io/enforce-policy'
), failed as (
  -- Servers before 1.27 wrote one entry and no list.
  select
    * exclude (text, source, entries, entry),
    'audit' as action,
    'policy' as plugin,
    coalesce(entry ->> '$.policy', '') as policy,
    coalesce(entry ->> '$.binding', '') as binding,
    try_cast(entry ->> '$.expressionIndex' as bigint) as expression_index,
    coalesce(entry ->> '$.message', '') as message,
    coalesce(try_cast(entry -> '$.validationActions' as varchar[]), []) as validation_actions,
    source
  from (
    select *, unnest(entries) as entry
    from (
      select
        *,
        case json_type(text)
          when 'ARRAY' then from_json(text, '["JSON"]')
          when 'OBJECT' then [text::json]
          else []
        end as entries
      from noted
      where source = 'validation.policy.admission.k8s.io/validation_failure' and json_valid(text)
    )
  )
  where json_type(entry) = 'OBJECT'
), mutated as (
  select
    * exclude (text, source),
    'mutate' as action,
    'webhook' as plugin,
    coalesce(text ->> '$.webhook', '') as policy,
    coalesce(text ->> '$.configuration', '') as binding,
    null::bigint as expression_index,
    '' as message,
    [] as validation_actions,
    source
  from noted
  where
    starts_with(source, 'mutation.webhook.admission.k8s.io/') and json_valid(text) and (text ->> '$.mutated') = 'true'
), patched as (
  select audit_id, replace(source, 'patch.', 'mutation.') as source, text ->> '$.patch' as patch
  from noted
  where starts_with(source, 'patch.webhook.admission.k8s.io/') and json_valid(text)
), ignored as (
  select
    * exclude (text, source),
    'failed-open' as action,
    'webhook' as plugin,
    text as policy,
    '' as binding,
    null::bigint as expression_index,
    '' as message,
    [] as validation_actions,
    source
  from noted
  where starts_with(source, 'failed-open.')
), annotated as (
  select
    * exclude (text, source),
    if(source = 'pod-security.kubernetes.io/audit-violations', 'audit', 'annotate') as action,
    if(starts_with(source, 'pod-security.kubernetes.io/'), 'builtin', 'policy') as plugin,
    if(starts_with(source, 'pod-security.kubernetes.io/'), 'PodSecurity', regexp_extract(source, '^(.*)/', 1)) as policy,
    '' as binding,
    null::bigint as expression_index,
    text as message,
    [] as validation_actions,
    source
  from noted
  where not contains(source, 'admission.k8s.io/')
), every as (
  from denied union all by name from failed union all by name from mutated
  union all by name from ignored union all by name from annotated
)
select
  every.*,
  patched.patch,
  ends_with(every.policy, '.static.k8s.io') or ends_with(every.binding, '.static.k8s.io') as is_static,
  every.audit_id in (select audit_id from denied) as is_denied
from every
left join patched on patched.audit_id = every.audit_id and patched.source = every.source;

create or replace temp view decided_request as
select
  seq, audit_id, stage_time, verb, username, api_group, resource, subresource, "namespace", object_name, code,
  -- The strongest thing that happened to the request.
  ['deny', 'mutate', 'audit', 'failed-open', 'annotate'][
    min(list_position(['deny', 'mutate', 'audit', 'failed-open', 'annotate'], action))
  ] as outcome,
  bool_or(is_denied) as is_denied,
  list(distinct policy order by policy) as policies
from decision
group by all;

-- The rows of `decision` that the variables below select, each unset or one of:
--   policy, user, namespace   a name, in which * and ? stand for anything
--   object                    a name, or `resource/name`, likewise
--   since, until              times, `2026-11-21 03:00:00` (UTC)
--   action                    deny, warn, audit, mutate, failed-open or annotate. `audit` means that the request was not
--                             denied: it is listed under the strongest thing that happened to it. Unset: all but annotate
--   audit_id                  the auditID of one request
--   static                    true for hooks whose own name or configuration ends in .static.k8s.io
create or replace temp view chosen_decision as
select *
from decision
where
  (
    getvariable('policy') is null
    or policy glob getvariable('policy')::varchar
    -- All that an engine's webhook denied, whatever policy it names.
    or (plugin = 'webhook' and action = 'deny' and binding glob getvariable('policy')::varchar)
  )
  and (getvariable('user') is null or username glob getvariable('user')::varchar)
  and (getvariable('namespace') is null or "namespace" glob getvariable('namespace')::varchar)
  and (
    getvariable('object') is null
    or object_name glob getvariable('object')::varchar
    or resource || '/' || object_name glob getvariable('object')::varchar
  )
  and (getvariable('since') is null or stage_time >= getvariable('since')::timestamp)
  and (getvariable('until') is null or stage_time < getvariable('until')::timestamp)
  and case coalesce(getvariable('action')::varchar, '')
    when '' then action <> 'annotate'
    when 'audit' then action = 'audit' and not is_denied
    when 'warn' then list_contains(validation_actions, 'Warn') and not is_denied
    else action = getvariable('action')::varchar
  end
  and (getvariable('audit_id') is null or audit_id = getvariable('audit_id')::varchar)
  and (coalesce(getvariable('static')::boolean, false) is false or is_static);
