-- The six facts of a fenced step as bare transactions over the same rows, each one statement: no rule, no lock, no trigger.
-- pgbench sends them; {given} yields the numbers n of the steps, {these} and {intents} pick their rows.
WITH audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'bench-planner', 'planner', 'propose_step', 'step', 'run-' || n / 10 || '/step-' || n % 10 || '/1', 'run-' || n / 10,
    '{"tool": "refund", "digest": null}', '', '127.0.0.1', to_hex(n) FROM {given})
INSERT INTO bare.step (id, run_id, name, epoch, phase, registry, pinned_tool, occurrence, deadline_at, content_digest, proposed_at,
  is_correlated, due_at)
SELECT bare.id(n), bare.id(n / 10), 'step-' || n, 1, 'proposed', 1, 'refund', 0, now() + interval '10 minutes', bare.digest(n), now(),
  false, now() + interval '10 minutes' FROM {given};

WITH action AS (
  INSERT INTO bare.action (payload_digest, tool, canonical)
  SELECT 'sha256:' || encode(sha256(bare.canonical(n)), 'hex'), 'refund', bare.canonical(n) FROM {given}),
vote AS (
  INSERT INTO bare.vote (id, path, digest, tool, is_late, model, prompt, by_id, payload_id, run_id, step_id)
  SELECT bare.id(2 * n), 'replica', bare.digest(n), 'refund', false, 'model-b', 'prompt-b', bare.id(1), bare.digest(n), bare.id(n / 10),
    bare.id(n) FROM {given}),
audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'bench-replica', 'path', 'cast_vote', 'step', 'run-' || n / 10 || '/step-' || n % 10 || '/1', 'run-' || n / 10,
    jsonb_build_object('path', 'replica', 'digest', bare.digest(n)), '', '127.0.0.1', to_hex(n) FROM {given})
UPDATE bare.step SET due_at = now() WHERE {these};

WITH vote AS (
  INSERT INTO bare.vote (id, path, digest, tool, is_late, model, prompt, by_id, payload_id, run_id, step_id)
  SELECT bare.id(2 * n + 1), 'production', bare.digest(n), 'refund', false, 'model-a', 'prompt-a', bare.id(2), bare.digest(n),
    bare.id(n / 10), bare.id(n) FROM {given}),
audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'bench-production', 'path', 'cast_vote', 'step', 'run-' || n / 10 || '/step-' || n % 10 || '/1', 'run-' || n / 10,
    jsonb_build_object('path', 'production', 'digest', bare.digest(n)), '', '127.0.0.1', to_hex(n) FROM {given})
UPDATE bare.step SET due_at = now() WHERE {these};

WITH intent AS (
  INSERT INTO bare.intent (id, key, generation, fence_digest, tool, registry, state, run_id)
  SELECT bare.id(n), bare.digest(n) || '-0', 1, bare.digest(n), 'refund', 1, 'ready', bare.id(n / 10) FROM {given}),
claim AS (
  INSERT INTO bare.claim (id, state, intent_id, run_id, step_id)
  SELECT bare.id(n), 'won', bare.id(n), bare.id(n / 10), bare.id(n) FROM {given}),
commit AS (
  INSERT INTO bare.commit (id, step_name, epoch, tool, fence_digest, key, authority, token, kid, payload_id, intent_id, run_id, step_id)
  SELECT bare.id(n), 'step-' || n, 1, 'refund', bare.digest(n), bare.digest(n) || '-0', 'agreement',
    repeat('t', 560) || n, 'bench', bare.digest(n), bare.id(n), bare.id(n / 10), bare.id(n) FROM {given}),
feed AS (
  INSERT INTO bare.feedevent (what, owner_group, run_id, step_id)
  SELECT 'decided', 'bench-planner', bare.id(n / 10), bare.id(n) FROM {given}),
audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'fencer', 'system', unnest(ARRAY['open_intent', 'commit_step']), 'commit', bare.id(n)::text, 'run-' || n / 10,
    jsonb_build_object('authority', 'agreement', 'payload_digest', bare.digest(n), 'key', bare.digest(n) || '-0'), '', '', '' FROM {given})
UPDATE bare.step SET phase = 'committed', reason = 'agreement', decided_at = now(), due_at = NULL WHERE {these};

WITH delivery AS (
  INSERT INTO bare.delivery (id, number, idempotency_key, lease_until, by_id, commit_id, payload_id, intent_id, run_id)
  SELECT bare.id(n), 1, bare.digest(-n), now() + interval '1 minute', bare.id(3), bare.id(n), bare.digest(n), bare.id(n), bare.id(n / 10)
    FROM {given}),
audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'bench-gateway', 'gateway', 'admit', 'intent', bare.id(n)::text, 'run-' || n / 10,
    jsonb_build_object('delivery', bare.id(n), 'number', 1), '', '127.0.0.1', to_hex(n) FROM {given})
UPDATE bare.intent SET state = 'in_flight', due_at = now() + interval '1 minute' WHERE {these};

WITH outcome AS (
  INSERT INTO bare.outcome (id, outcome, source, is_effective, response, by_id, delivery_id, run_id)
  SELECT bare.id(n), 'succeeded', 'report', true, '{"refund_id":"r"}', bare.id(3), bare.id(n), bare.id(n / 10) FROM {given}),
audit AS (
  INSERT INTO bare.auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
  SELECT 'bench-gateway', 'gateway', 'report_outcome', 'intent', bare.id(n)::text, 'run-' || n / 10,
    jsonb_build_object('outcome', 'succeeded', 'state', 'succeeded'), '', '127.0.0.1', to_hex(n) FROM {given})
UPDATE bare.intent SET state = 'succeeded', settled_at = now(), due_at = NULL, outcome_id = bare.id(0) WHERE {these};
