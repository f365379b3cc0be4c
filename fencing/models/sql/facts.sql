-- Lock and read: one call gives a service everything that it decides by.
--
-- Each statement inside a volatile PL/pgSQL function sees what was committed before it began, so the facts are read
-- after the locks were taken, and the clock last of all (N3, design 10). Lock order everywhere: run, step, grant, intent;
-- ascending id inside a kind. What a run's lock means:
--   KEY SHARE       proposals, votes, admissions, outcomes: many beside each other
--   NO KEY UPDATE   a fencer, a replay: alone of its kind on the run, beside the above
--   UPDATE          restart, reconciliation, grants, revocation: alone on the run. So whoever holds any lock on a run
--                   may read its grants, its forks and its epoch without a lock on them.

-- reading begins
CREATE OR REPLACE FUNCTION fence_facts(p_runs uuid[], p_steps uuid[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  answer jsonb;
  commit_grants uuid[];
  commit_intents uuid[];
  run_steps jsonb;
  all_votes jsonb;
  all_commits jsonb;
BEGIN
  SELECT coalesce(jsonb_agg(jsonb_build_object(
      'id', s.id, 'run_id', s.run_id, 'name', s.name, 'epoch', s.epoch, 'branch', s.branch, 'phase', s.phase,
      'reason', s.reason, 'registry', s.registry, 'pinned_digest', s.pinned_digest,
      'pinned_payload', s.pinned_payload_id, 'pinned_tool', s.pinned_tool, 'key', s.key, 'occurrence', s.occurrence,
      'deadline_at', s.deadline_at, 'deadline_s', s.deadline_s, 'proposed_at', s.proposed_at, 'decided_at', s.decided_at,
      'content_digest', s.content_digest, 'fenced_at', s.fenced_at,
      'fenced_by', s.fenced_by_id, 'due_at', s.due_at, 'difference', s.difference,
      'is_correlated', s.is_correlated) ORDER BY s.epoch), '[]')
    INTO run_steps FROM fencing_step s WHERE s.id = ANY (p_steps);

  SELECT coalesce(jsonb_agg(jsonb_build_object(
      'id', v.id, 'step_id', v.step_id, 'path', v.path, 'digest', v.digest, 'payload', v.payload_id, 'tool', v.tool,
      'abstain', v.abstain, 'fault', v.fault, 'is_late', v.is_late, 'model', v.model, 'prompt', v.prompt,
      'received_at', v.received_at) ORDER BY v.received_at, v.id), '[]')
    INTO all_votes FROM fencing_vote v WHERE v.step_id = ANY (p_steps);

  SELECT coalesce(jsonb_agg(jsonb_build_object(
      'id', c.id, 'run_id', c.run_id, 'step_id', c.step_id, 'step_name', c.step_name, 'epoch', c.epoch, 'tool', c.tool,
      'payload', c.payload_id, 'fence_digest', c.fence_digest, 'key', c.key, 'authority', c.authority,
      'grant_id', c.grant_id, 'intent_id', c.intent_id, 'token', c.token, 'committed_at', c.committed_at,
      'closed_at', c.closed_at, 'closed_reason', c.closed_reason)), '[]'),
      array_agg(c.grant_id) FILTER (WHERE c.grant_id IS NOT NULL), array_agg(c.intent_id)
    INTO all_commits, commit_grants, commit_intents
    FROM fencing_commit c WHERE c.step_id = ANY (p_steps);
  -- An agreement that waits for its action has claimed its intent already (L1).
  commit_intents := commit_intents || ARRAY(SELECT c.intent_id FROM fencing_claim c
    WHERE c.step_id = ANY (p_steps) AND c.state = 'open');

  answer := jsonb_build_object('steps', run_steps, 'votes', all_votes, 'commits', all_commits,
    'runs', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'name', r.name, 'epoch', r.epoch,
        'counter', r.counter, 'owner_id', r.owner_id, 'owner_group', r.owner_group,
        'content_digest', r.content_digest, 'labels', r.labels)), '[]')
      FROM fencing_run r WHERE r.id = ANY (p_runs)),
    'forks', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'run_id', f.run_id, 'name', f.name,
        'parent', (SELECT p.name FROM fencing_branch p WHERE p.id = f.parent_id), 'winner', f.winner,
        'reconciled_at', f.reconciled_at)), '[]')
      FROM fencing_fork f WHERE f.run_id = ANY (p_runs)),
    'branches', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', b.id, 'run_id', b.run_id, 'name', b.name,
        'fork', f.name, 'state', b.state) ORDER BY b.fork_id, b.place), '[]')
      FROM fencing_branch b JOIN fencing_fork f ON f.id = b.fork_id WHERE b.run_id = ANY (p_runs)),
    'grants', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', g.id, 'run_id', g.run_id, 'name', g.name,
        'epoch', g.epoch, 'step_name', g.step_name, 'tool', g.tool, 'path', g.path, 'digest', g.digest,
        'max_uses', g.max_uses, 'uses', g.uses, 'ttl_s', g.ttl_s, 'approvals_needed', g.approvals_needed,
        'pending_until', g.pending_until, 'expires_at', g.expires_at, 'expired_at', g.expired_at,
        'revoked_at', g.revoked_at, 'voided_at', g.voided_at, 'due_at', g.due_at, 'void_reason', g.void_reason,
        'review_due_at', g.review_due_at, 'reviewed_at', g.reviewed_at,
        'approvals', (SELECT count(*) FROM fencing_grantapproval a WHERE a.grant_id = g.id))), '[]')
      FROM fencing_grant g WHERE (g.run_id = ANY (p_runs) AND g.due_at IS NOT NULL) OR g.id = ANY (commit_grants)),
    'intents', fence_intents(commit_intents),
    'registry', (SELECT coalesce(max(id), 0) FROM fencing_toolversion));
  RETURN answer || jsonb_build_object('now', clock_timestamp());
END $$;

CREATE OR REPLACE FUNCTION fence_intents(p_intents uuid[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p_intents IS NULL THEN RETURN '[]'; END IF;
  RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('id', i.id, 'run_id', i.run_id, 'key', i.key,
      'generation', i.generation, 'fence_digest', i.fence_digest, 'tool', i.tool, 'registry', i.registry,
      'payload', i.payload_id, 'state', i.state, 'not_before', i.not_before, 'due_at', i.due_at,
      -- L8: what a person adopted settles an intent without any delivery of its own.
      'settled', coalesce((SELECT jsonb_build_object('outcome', o.outcome,
          'response', convert_from(o.response, 'UTF8'), 'at', o.recorded_at, 'by', coalesce(u.username, k.name))
        FROM fencing_outcome o LEFT JOIN fencing_credential k ON k.id = o.by_id
          LEFT JOIN auth_user u ON u.id = o.person_id WHERE o.id = i.outcome_id),
        (SELECT jsonb_build_object('outcome', 'succeeded', 'response', NULL, 'at', e.adopted_at, 'by', u.username)
        FROM fencing_observedeffect e JOIN auth_user u ON u.id = e.adopter_id WHERE e.adopted_by_id = i.id)),
      'is_contradicted', EXISTS (SELECT FROM fencing_outcome o JOIN fencing_delivery d ON d.id = o.delivery_id
        WHERE d.intent_id = i.id AND o.outcome = 'succeeded' AND NOT o.is_effective
          AND NOT EXISTS (SELECT FROM fencing_outcome p JOIN fencing_delivery e ON e.id = p.delivery_id
            WHERE e.intent_id = i.id AND p.source = 'person' AND p.recorded_at >= o.recorded_at)),
      'claims', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'step_id', c.step_id, 'state', c.state,
          'claimed_at', c.claimed_at, 'is_committed', c.state <> 'lost' AND EXISTS (SELECT FROM fencing_commit k
            WHERE k.step_id = c.step_id AND k.closed_at IS NULL))
          ORDER BY c.id), '[]') FROM fencing_claim c WHERE c.intent_id = i.id),
      -- P1: the newest act that would undo this very effect.
      'compensation', (SELECT jsonb_build_object('id', u.id, 'state', u.state, 'cause', u.cause, 'payload', u.payload_id,
          'registry', u.registry, 'round', u.round)
        FROM fencing_compensation u WHERE u.intent_id = i.id AND u.effect_id IS NULL
        ORDER BY u.proposed_at DESC, u.id DESC LIMIT 1),
      'deliveries', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'number', d.number,
          'payload', d.payload_id, 'commit_id', d.commit_id, 'lease_until', d.lease_until,
          'outcome', (SELECT o.outcome FROM fencing_outcome o WHERE o.delivery_id = d.id AND o.is_effective
              ORDER BY o.recorded_at DESC, o.id DESC LIMIT 1)) ORDER BY d.number), '[]')
        FROM fencing_delivery d WHERE d.intent_id = i.id))), '[]')
    FROM fencing_intent i WHERE i.id = ANY (p_intents));
END $$;

-- reading ends

-- The freezes that stand and may be about these runs (L10): one look at an index of hardly any rows.
CREATE OR REPLACE FUNCTION fence_freezes(p_runs uuid[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'tool', f.tool, 'run_id', f.run_id, 'at', f.set_at)), '[]')
    FROM fencing_freeze f WHERE f.lifted_at IS NULL AND (f.run_id IS NULL OR f.run_id = ANY (p_runs)));
END $$;

-- For proposals, votes, replays, admissions: the named runs and all epochs of the named steps.
CREATE OR REPLACE FUNCTION fence_lock_steps(p_runs text[], p_names text[], p_strength text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  run_ids uuid[];
  step_ids uuid[];
  fresh uuid[];
  frozen jsonb;
BEGIN
  -- L10: a freeze of a tool or of everything holds this lock alone. So an admission, or a new grant, is before it and is
  -- told by it, or after it and sees it. It comes before every run's lock, here and there.
  IF p_strength IN ('admit', 'update') THEN PERFORM pg_advisory_xact_lock_shared(112641513454181); END IF;
  IF p_strength = 'update' THEN
    SELECT array_agg(id) INTO run_ids FROM (SELECT id FROM fencing_run WHERE name = ANY (p_runs) ORDER BY id FOR UPDATE) q;
  ELSIF p_strength = 'no key update' THEN
    SELECT array_agg(id) INTO run_ids FROM (SELECT id FROM fencing_run WHERE name = ANY (p_runs) ORDER BY id FOR NO KEY UPDATE) q;
  ELSE
    SELECT array_agg(id) INTO run_ids FROM (SELECT id FROM fencing_run WHERE name = ANY (p_runs) ORDER BY id FOR KEY SHARE) q;
  END IF;
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT s.id FROM unnest(p_runs, p_names) AS wanted(run_name, name)
      JOIN fencing_run r ON r.name = wanted.run_name
      JOIN fencing_step s ON s.run_id = r.id AND s.name = wanted.name
     ORDER BY s.id FOR NO KEY UPDATE OF s) q;
  -- A replay may have added a row while this waited for its siblings' locks: take that one too.
  SELECT array_agg(q.id) INTO fresh FROM (
    SELECT s.id FROM unnest(p_runs, p_names) AS wanted(run_name, name)
      JOIN fencing_run r ON r.name = wanted.run_name
      JOIN fencing_step s ON s.run_id = r.id AND s.name = wanted.name
     WHERE step_ids IS NULL OR s.id <> ALL (step_ids)
     ORDER BY s.id FOR NO KEY UPDATE OF s) q;
  IF p_strength NOT IN ('admit', 'update') THEN
    RETURN fence_facts(coalesce(run_ids, '{}'), coalesce(step_ids, '{}') || coalesce(fresh, '{}'));
  END IF;
  frozen := fence_freezes(run_ids);
  RETURN fence_facts(coalesce(run_ids, '{}'), coalesce(step_ids, '{}') || coalesce(fresh, '{}'))
    || jsonb_build_object('freezes', frozen);
END $$;

-- For restarts and revocations: the whole run.
CREATE OR REPLACE FUNCTION fence_lock_run(p_run text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  run_id_ uuid;
  step_ids uuid[];
BEGIN
  SELECT id INTO run_id_ FROM fencing_run WHERE name = p_run FOR UPDATE;
  -- Only what the end of an epoch or of a grant may change: undecided steps, and commits that a grant gave.
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT s.id FROM fencing_step s WHERE s.run_id = run_id_
       AND (s.phase IN ('idle', 'proposed', 'agreed', 'fenced')
            OR EXISTS (SELECT FROM fencing_commit c WHERE c.step_id = s.id AND c.closed_at IS NULL AND c.authority = 'grant'))
     ORDER BY s.id FOR NO KEY UPDATE) q;
  RETURN fence_facts(CASE WHEN run_id_ IS NULL THEN '{}' ELSE ARRAY[run_id_] END, coalesce(step_ids, '{}'));
END $$;

-- For a reconciliation (B2, B4): the whole run, and all steps in its branches that it may change.
CREATE OR REPLACE FUNCTION fence_lock_branches(p_run text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  run_id_ uuid;
  step_ids uuid[];
BEGIN
  SELECT id INTO run_id_ FROM fencing_run WHERE name = p_run FOR UPDATE;
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT s.id FROM fencing_step s WHERE s.run_id = run_id_ AND s.branch IS NOT NULL
       AND (s.phase IN ('idle', 'proposed', 'agreed', 'fenced')
            OR EXISTS (SELECT FROM fencing_commit c WHERE c.step_id = s.id AND c.closed_at IS NULL))
     ORDER BY s.id FOR NO KEY UPDATE) q;
  RETURN fence_facts(CASE WHEN run_id_ IS NULL THEN '{}' ELSE ARRAY[run_id_] END, coalesce(step_ids, '{}'));
END $$;

-- For a freeze (L10): its run; or, of a tool or of everything, every run with a grant that may be about it. Whoever
-- issues a grant meanwhile waits for the first lock here, so none is missed.
CREATE OR REPLACE FUNCTION fence_lock_frozen(p_run text, p_tool text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  run_ids uuid[];
  step_ids uuid[];
BEGIN
  IF p_run IS NULL THEN
    PERFORM pg_advisory_xact_lock(112641513454181);
    SELECT array_agg(id) INTO run_ids FROM (SELECT id FROM fencing_run WHERE id IN (
        SELECT g.run_id FROM fencing_grant g
         WHERE g.due_at IS NOT NULL AND (p_tool IS NULL OR g.tool IS NULL OR g.tool = p_tool))
      ORDER BY id FOR UPDATE) q;
  ELSE
    SELECT array_agg(id) INTO run_ids FROM (SELECT id FROM fencing_run WHERE name = p_run FOR UPDATE) q;
  END IF;
  -- What the end of a grant may change, and the steps that say which tool a grant by step alone is about.
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT s.id FROM fencing_step s WHERE s.run_id = ANY (run_ids)
       AND (s.phase = 'fenced'
            OR EXISTS (SELECT FROM fencing_commit c WHERE c.step_id = s.id AND c.closed_at IS NULL AND c.authority = 'grant')
            OR EXISTS (SELECT FROM fencing_grant g WHERE g.run_id = s.run_id AND g.due_at IS NOT NULL AND g.tool IS NULL
                          AND g.step_name = s.name AND g.epoch = s.epoch))
     ORDER BY s.id FOR NO KEY UPDATE) q;
  RETURN fence_facts(coalesce(run_ids, '{}'), coalesce(step_ids, '{}'));
END $$;

-- For the fencer: a batch of what is due, passing over what another one holds.
CREATE OR REPLACE FUNCTION fence_lock_due(p_limit integer) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted uuid[];
  wanted_runs uuid[];
  run_ids uuid[];
  step_ids uuid[];
BEGIN
  SELECT array_agg(q.id), array_agg(DISTINCT q.run_id) INTO wanted, wanted_runs FROM (
    SELECT id, run_id FROM fencing_step WHERE due_at <= (SELECT clock_timestamp()) ORDER BY due_at LIMIT p_limit) q;
  IF wanted IS NULL THEN RETURN NULL; END IF;
  SELECT array_agg(q.id) INTO run_ids FROM (
    SELECT id FROM fencing_run WHERE id = ANY (wanted_runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) q;
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT id FROM fencing_step WHERE id = ANY (wanted) AND run_id = ANY (run_ids) AND due_at <= clock_timestamp()
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) q;
  RETURN fence_facts(coalesce(run_ids, '{}'), coalesce(step_ids, '{}'))
    || jsonb_build_object('wanted', cardinality(wanted), 'freezes', fence_freezes(run_ids));
END $$;

-- Lock intents by (run, key), all generations, after the steps; give the newest of each key and those named by id.
CREATE OR REPLACE FUNCTION fence_lock_intents(p_runs uuid[], p_keys text[], p_ids uuid[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids uuid[];
BEGIN
  SELECT array_agg(q.id) INTO ids FROM (
    -- By ids alone: an OR of two ways to find a row is answered by reading every row.
    SELECT i.id FROM fencing_intent i
     WHERE i.id = ANY (p_ids || ARRAY(SELECT j.id FROM unnest(p_runs, p_keys) AS wanted(run_id, key)
                      JOIN LATERAL (SELECT id FROM fencing_intent n WHERE n.run_id = wanted.run_id AND n.key = wanted.key
                                     ORDER BY generation DESC LIMIT 1) j ON true))
     ORDER BY i.id FOR NO KEY UPDATE) q;
  RETURN jsonb_build_object('intents', fence_intents(ids), 'now', clock_timestamp());
END $$;
