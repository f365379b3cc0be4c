-- The straight way: the plain case of each hot call, for many items at once, each call one statement for its caller.
--
-- Such a function writes only what `protocol` would decide without a second thought: a first proposal of a step at its
-- run's epoch, a path's first vote on a proposed step, the first try of an effect that one standing commit of an
-- agreement wants, the success of the only try. Everything it asks is a reason to say nothing: an item that is not
-- plain is left out of the answer, untouched, and its caller takes the careful way (`lock and read`, judge, write).
-- So nothing is ever refused here, and the guards of the tables stand over it as over every other statement.
--
-- Locks in the order of `facts.sql`; what another transaction holds is passed over, so that one item never holds up
-- the others. Each statement sees what was committed before it began: the locks come first, then the reading of what was
-- locked; what was passed over stays out, for it may have changed after the reading began.
-- No two items of a call may name the same step, commit or intent. Items come in the order of their numbers, and what is
-- told of each is a LATERAL part beside it: so the audit and the feed have that order without a sort.

-- F1, R1: the first proposal of a step, at its run's epoch, with the registry that read it.
CREATE OR REPLACE FUNCTION fence_straight_steps(p jsonb)
RETURNS TABLE (n integer, at timestamptz, deadline timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  locked uuid[];
BEGIN
  SELECT array_agg(q.id) INTO locked FROM (SELECT r.id FROM jsonb_to_recordset(p) AS i(run text)
    JOIN LATERAL (SELECT a.id FROM fencing_run a WHERE a.name = i.run FOR KEY SHARE SKIP LOCKED) r ON true) q;
  IF locked IS NULL THEN RETURN; END IF;
  RETURN QUERY
    WITH good AS MATERIALIZED (
      SELECT i.*, r.id AS run_id, now_.at AS proposed_at,
          now_.at + make_interval(secs => coalesce(i.deadline_s, i.silence_s)) AS deadline_at
      FROM jsonb_to_recordset(p) AS i(n integer, id uuid, run text, step text, epoch bigint, registry bigint, digest text,
          payload text, canonical text, tool text, key text, occurrence bigint, deadline_s float8, silence_s float8,
          content text, context_ref text, by_id uuid, "group" text, actor text, source text, request text)
        JOIN LATERAL (SELECT a.id, a.epoch, a.owner_group FROM fencing_run a WHERE a.name = i.run LIMIT 1) r ON true
        JOIN LATERAL (SELECT a."group" FROM fencing_credential a WHERE a.id = i.by_id AND a.revoked_at IS NULL
            AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp()) LIMIT 1) c ON true
        CROSS JOIN LATERAL (SELECT clock_timestamp() AS at) now_
      WHERE r.id = ANY (locked) AND r.epoch = i.epoch AND r.owner_group = i."group" AND c."group" = i."group"
        AND i.registry = (SELECT max(t.id) FROM fencing_toolversion t)
        AND (SELECT s.id FROM fencing_step s WHERE s.run_id = r.id AND s.name = i.step LIMIT 1) IS NULL),
    stored AS (
      INSERT INTO fencing_action (payload_digest, tool, canonical)
        SELECT DISTINCT ON (i.payload) i.payload, i.tool, i.canonical::bytea FROM good AS i
        WHERE i.payload IS NOT NULL ORDER BY i.payload
        ON CONFLICT DO NOTHING),
    made AS (
      INSERT INTO fencing_step AS s (id, run_id, name, epoch, phase, registry, pinned_digest, pinned_payload_id,
          pinned_tool, key, occurrence, deadline_s, deadline_at, due_at, content_digest, context_ref, proposed_at,
          is_correlated)
        SELECT i.id, i.run_id, i.step, i.epoch, 'proposed', i.registry, i.digest, i.payload, i.tool, i.key,
            i.occurrence, i.deadline_s, i.deadline_at, i.deadline_at, i.content, i.context_ref, i.proposed_at, false
        FROM good AS i
        ON CONFLICT (run_id, name, epoch) DO NOTHING
        RETURNING s.id),
    told AS (
      INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
        SELECT i.actor, 'planner', 'propose_step', 'step', i.run || '/' || i.step || '/' || i.epoch, i.run,
            jsonb_build_object('tool', i.tool, 'digest', i.digest), '', i.source, i.request
        FROM good AS i WHERE (i.id IN (SELECT made.id FROM made)) IS TRUE)
    -- IS TRUE: looked up in a hash. As a join, each item would be compared with every other.
    SELECT i.n, i.proposed_at, i.deadline_at FROM good AS i WHERE (i.id IN (SELECT made.id FROM made)) IS TRUE;
END $$;

-- F2: a path's first vote on a step that is proposed. `look` tells that the fencer has something to decide.
CREATE OR REPLACE FUNCTION fence_straight_votes(p jsonb) RETURNS TABLE (n integer, look boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  locked uuid[];
BEGIN
  SELECT array_agg(q.id) INTO locked FROM (
    SELECT s.id FROM jsonb_to_recordset(p) AS i(run text, step text, epoch bigint)
      JOIN LATERAL (SELECT a.id FROM fencing_run a WHERE a.name = i.run FOR KEY SHARE SKIP LOCKED) r ON true
      JOIN LATERAL (SELECT a.id FROM fencing_step a WHERE a.run_id = r.id AND a.name = i.step AND a.epoch = i.epoch
          FOR NO KEY UPDATE SKIP LOCKED) s ON true) q;
  IF locked IS NULL THEN RETURN; END IF;
  RETURN QUERY
    WITH good AS MATERIALIZED (
      SELECT q.*, q.look OR q.deadline_at <> q.deadline_before AS moves
      FROM (
        SELECT i.*, r.id AS run_id, s.id AS step_id, clock_timestamp() AS received_at, s.deadline_at AS deadline_before,
            CASE WHEN s.deadline_s IS NULL AND s.pinned_tool IS NULL AND i.tool IS NOT NULL AND votes.tools = 0
              THEN s.proposed_at + make_interval(secs => i.silence_s) ELSE s.deadline_at END AS deadline_at,
            -- F3: one vote decides where it is the only one required, contradicts the proposal, or a grant may cover it.
            coalesce(i.required <= 1 OR votes.others > 0 OR s.due_at <= clock_timestamp(), false)
              OR coalesce(s.pinned_digest <> i.digest, false) OR coalesce(s.pinned_tool <> i.tool, false)
              OR (SELECT true FROM fencing_grant g WHERE g.run_id = r.id AND g.due_at IS NOT NULL LIMIT 1) IS NOT NULL
              AS look
        FROM jsonb_to_recordset(p) AS i(n integer, id uuid, run text, step text, epoch bigint, registry bigint,
            path text, digest text, payload text, canonical text, tool text, fault text, model text, prompt text,
            rationale_ref text, silence_s float8, required integer, by_id uuid, actor text, source text, request text)
          JOIN LATERAL (SELECT a.id, a.epoch FROM fencing_run a WHERE a.name = i.run LIMIT 1) r ON true
          JOIN LATERAL (SELECT a.* FROM fencing_step a
              WHERE a.run_id = r.id AND a.name = i.step AND a.epoch = i.epoch LIMIT 1) s ON true
          JOIN LATERAL (SELECT a.path FROM fencing_credential a WHERE a.id = i.by_id AND a.revoked_at IS NULL
              AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp()) LIMIT 1) c ON true
          JOIN LATERAL (SELECT count(*) AS others, count(v.tool) AS tools, count(*) FILTER (WHERE v.path = i.path) AS mine
              FROM fencing_vote v WHERE v.step_id = s.id) votes ON true
        WHERE s.id = ANY (locked) AND s.phase = 'proposed' AND s.registry = i.registry AND s.epoch >= r.epoch
          AND votes.mine = 0 AND c.path = i.path
          AND (SELECT t.id FROM fencing_step t WHERE t.run_id = r.id AND t.name = i.step AND t.epoch > i.epoch LIMIT 1)
              IS NULL
          AND (SELECT k.id FROM fencing_commit k
              WHERE k.run_id = r.id AND k.step_name = i.step AND k.closed_at IS NULL LIMIT 1) IS NULL) q),
    stored AS (
      INSERT INTO fencing_action (payload_digest, tool, canonical)
        SELECT DISTINCT ON (i.payload) i.payload, i.tool, i.canonical::bytea FROM good AS i
        WHERE i.payload IS NOT NULL ORDER BY i.payload
        ON CONFLICT DO NOTHING),
    voted AS (
      INSERT INTO fencing_vote (id, run_id, step_id, path, digest, payload_id, tool, fault, is_late, model, prompt,
          rationale_ref, by_id, received_at)
        SELECT i.id, i.run_id, i.step_id, i.path, i.digest, i.payload, i.tool, i.fault, false, i.model, i.prompt,
            i.rationale_ref, i.by_id, i.received_at
        FROM good AS i),
    moved AS (
      UPDATE fencing_step AS s SET due_at = CASE WHEN i.look THEN i.received_at ELSE i.deadline_at END,
          deadline_at = i.deadline_at
        FROM good AS i WHERE s.id = i.step_id AND i.moves),
    told AS (
      INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, after, reason, source, request)
        SELECT i.actor, 'path', 'vote', 'step', i.run || '/' || i.step || '/' || i.epoch, i.run,
            jsonb_build_object('path', i.path, 'digest', i.digest, 'late', false), '', i.source, i.request
        FROM good AS i)
    SELECT i.n, i.look FROM good AS i;
END $$;

-- L3: the first try of an effect that one standing commit by agreement wants, and no other step claims.
CREATE OR REPLACE FUNCTION fence_straight_admissions(p jsonb)
RETURNS TABLE (n integer, intent uuid, idempotency_key text, lease timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  locked uuid[];
  numbers integer[];
  intents uuid[];
  payloads text[];
  keys text[];
  leases timestamptz[];
BEGIN
  -- L10: a freeze comes wholly before this, and is seen, or wholly after it, and tells what is out.
  PERFORM pg_advisory_xact_lock_shared(112641513454181);
  SELECT array_agg(q.id) INTO locked FROM (
    SELECT t.id FROM jsonb_to_recordset(p) AS i(jti uuid)
      JOIN LATERAL (SELECT a.run_id, a.step_id, a.intent_id FROM fencing_commit a WHERE a.id = i.jti LIMIT 1) k ON true
      JOIN LATERAL (SELECT a.id FROM fencing_run a WHERE a.id = k.run_id FOR KEY SHARE SKIP LOCKED) r ON true
      JOIN LATERAL (SELECT a.id FROM fencing_step a WHERE a.id = k.step_id FOR NO KEY UPDATE SKIP LOCKED) s ON true
      JOIN LATERAL (SELECT a.id FROM fencing_intent a WHERE a.id = k.intent_id FOR NO KEY UPDATE SKIP LOCKED) t ON true
  ) q;
  IF locked IS NULL THEN RETURN; END IF;
  WITH good AS MATERIALIZED (
    SELECT i.*, r.id AS run_id, r.name AS run_name, k.step_name, k.intent_id, now_.at AS admitted_at,
        'fence-' || encode(sha256(convert_to(r.name || E'\n' || t.key || E'\n' || t.generation, 'UTF8')), 'hex')
          AS idempotency_key,
        now_.at + make_interval(secs => i.lease_s) AS lease_until
    FROM jsonb_to_recordset(p) AS i(n integer, id uuid, jti uuid, token text, payload text, registry bigint, tool text,
        run text, step text, epoch bigint, lease_s float8, by_id uuid, tools jsonb, actor text, source text,
        request text)
      JOIN LATERAL (SELECT a.* FROM fencing_commit a WHERE a.id = i.jti LIMIT 1) k ON true
      JOIN LATERAL (SELECT a.id, a.name FROM fencing_run a WHERE a.id = k.run_id LIMIT 1) r ON true
      JOIN LATERAL (SELECT a.* FROM fencing_step a WHERE a.id = k.step_id LIMIT 1) s ON true
      JOIN LATERAL (SELECT a.* FROM fencing_intent a WHERE a.id = k.intent_id LIMIT 1) t ON true
      JOIN LATERAL (SELECT a.tools FROM fencing_credential a WHERE a.id = i.by_id AND a.revoked_at IS NULL
          AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp()) LIMIT 1) c ON true
      CROSS JOIN LATERAL (SELECT clock_timestamp() AS at) now_
    WHERE t.id = ANY (locked) AND k.token = i.token AND k.closed_at IS NULL AND k.authority = 'agreement'
      AND k.payload_id = i.payload AND k.tool = i.tool
      AND s.phase = 'committed' AND s.registry = i.registry AND t.registry = i.registry
      AND (i.run IS NULL OR i.run = r.name) AND (i.step IS NULL OR i.step = k.step_name)
      AND (i.epoch IS NULL OR i.epoch = k.epoch)
      AND t.state = 'ready' AND t.not_before IS NULL AND (t.tool IS NULL OR t.tool = i.tool)
      AND (s.pinned_digest IS NULL OR s.pinned_digest = k.fence_digest)
      AND (s.pinned_tool IS NULL OR s.pinned_tool = k.tool)
      AND to_jsonb(c.tools) IS NOT DISTINCT FROM nullif(i.tools, 'null')
      AND (SELECT true FROM fencing_vote v WHERE v.step_id = s.id AND (v.digest <> k.fence_digest OR v.tool <> k.tool)
          LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_claim m WHERE m.intent_id = t.id AND (m.step_id <> s.id OR m.state <> 'won')
          LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_delivery d WHERE d.intent_id = t.id LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_freeze f WHERE f.lifted_at IS NULL AND (f.run_id IS NULL OR f.run_id = k.run_id)
          AND (f.tool IS NULL OR f.tool = k.tool) LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_observedeffect e WHERE e.digest = k.payload_id AND e.match = 'escape' AND e.is_open
          LIMIT 1) IS NULL),
  told AS (
    INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, before, after, reason, source, request)
      SELECT i.actor, 'gateway', told.verb, told.kind, told.subject, i.run_name, told.before, told.after, '', i.source,
          i.request
      FROM good AS i CROSS JOIN LATERAL (VALUES
        ('move_intent', 'intent', i.intent_id::text, '{"state": "ready"}'::jsonb, '{"state": "in_flight"}'::jsonb),
        ('admit', 'delivery', i.id::text, NULL, jsonb_build_object('intent', i.intent_id, 'number', 1,
            'payload_digest', i.payload, 'idempotency_key', i.idempotency_key)))
        AS told(verb, kind, subject, before, after)),
  delivered AS (
    INSERT INTO fencing_delivery (id, run_id, intent_id, number, commit_id, payload_id, idempotency_key, lease_until,
        by_id, admitted_at)
      SELECT i.id, i.run_id, i.intent_id, 1, i.jti, i.payload, i.idempotency_key, i.lease_until, i.by_id,
          i.admitted_at
      FROM good AS i)
  SELECT array_agg(i.n), array_agg(i.intent_id), array_agg(i.payload), array_agg(i.idempotency_key),
      array_agg(i.lease_until)
    INTO numbers, intents, payloads, keys, leases FROM good AS i;
  -- A statement of its own: deliveries are judged while their intents are ready.
  RETURN QUERY
    UPDATE fencing_intent AS t SET state = 'in_flight', payload_id = i.payload, due_at = i.lease_until
    FROM unnest(numbers, intents, payloads, keys, leases) AS i(n, id, payload, idempotency_key, lease_until)
    WHERE t.id = i.id
    RETURNING i.n, t.id, i.idempotency_key, i.lease_until;
END $$;

-- L5: the success of the only try of an effect, told while that try is open.
CREATE OR REPLACE FUNCTION fence_straight_outcomes(p jsonb)
RETURNS TABLE (n integer, run text, key text, generation integer, payload text, action bytea, lease timestamptz,
    at timestamptz, claims jsonb)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  locked uuid[];
BEGIN
  SELECT array_agg(q.id) INTO locked FROM (
    SELECT t.id FROM jsonb_to_recordset(p) AS i(delivery uuid)
      JOIN LATERAL (SELECT a.run_id, a.intent_id FROM fencing_delivery a WHERE a.id = i.delivery LIMIT 1) d ON true
      JOIN LATERAL (SELECT a.id FROM fencing_run a WHERE a.id = d.run_id FOR KEY SHARE SKIP LOCKED) r ON true
      JOIN LATERAL (SELECT a.id FROM fencing_intent a WHERE a.id = d.intent_id FOR NO KEY UPDATE SKIP LOCKED) t ON true
  ) q;
  IF locked IS NULL THEN RETURN; END IF;
  RETURN QUERY
    WITH good AS MATERIALIZED (
      SELECT i.*, d.run_id, t.id AS intent_id, t.key, t.generation, t.payload_id, r.name AS run_name, d.lease_until,
          clock_timestamp() AS recorded_at
      FROM jsonb_to_recordset(p) AS i(n integer, id uuid, intent uuid, delivery uuid, response text, retry_after_s float8,
          by_id uuid, tools jsonb, actor text, source text, request text)
        JOIN LATERAL (SELECT a.* FROM fencing_delivery a WHERE a.id = i.delivery LIMIT 1) d ON true
        JOIN LATERAL (SELECT a.name FROM fencing_run a WHERE a.id = d.run_id LIMIT 1) r ON true
        JOIN LATERAL (SELECT a.* FROM fencing_intent a WHERE a.id = d.intent_id LIMIT 1) t ON true
        JOIN LATERAL (SELECT a.tools FROM fencing_credential a WHERE a.id = i.by_id AND a.revoked_at IS NULL
            AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp()) LIMIT 1) c ON true
      WHERE t.id = ANY (locked) AND t.id = i.intent AND t.state = 'in_flight' AND d.number = 1
        AND to_jsonb(c.tools) IS NOT DISTINCT FROM nullif(i.tools, 'null')
        AND (c.tools IS NULL OR t.tool = ANY (c.tools))
        AND (SELECT true FROM fencing_delivery e WHERE e.intent_id = t.id AND e.id <> d.id LIMIT 1) IS NULL
        -- B4, P4: what a lost branch sent may have to be undone, and its outcome tells how.
        AND (SELECT true FROM fencing_claim m WHERE m.intent_id = t.id AND m.state <> 'won' LIMIT 1) IS NULL
        AND (SELECT true FROM fencing_outcome o WHERE o.delivery_id = d.id LIMIT 1) IS NULL),
    recorded AS (
      INSERT INTO fencing_outcome (id, run_id, delivery_id, outcome, source, is_effective, response, retry_after_s,
          by_id, recorded_at)
        SELECT i.id, i.run_id, i.delivery, 'succeeded', 'report', true, i.response::bytea, i.retry_after_s, i.by_id,
            i.recorded_at
        FROM good AS i),
    settled AS (
      UPDATE fencing_intent AS t SET state = 'succeeded', outcome_id = i.id, settled_at = i.recorded_at, due_at = NULL,
          not_before = NULL
        FROM good AS i WHERE t.id = i.intent_id),
    told AS (
      INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, before, after, reason, source, request)
        SELECT i.actor, 'gateway', told.verb, told.kind, told.subject, i.run_name, told.before, told.after, '',
            i.source, i.request
        FROM good AS i CROSS JOIN LATERAL (VALUES
          ('record_outcome', 'delivery', i.delivery::text, NULL, jsonb_build_object('intent', i.intent_id,
              'number', 1, 'outcome', 'succeeded', 'source', 'report', 'effective', true)),
          ('move_intent', 'intent', i.intent_id::text, '{"state": "in_flight"}'::jsonb,
              '{"state": "succeeded"}'::jsonb)) AS told(verb, kind, subject, before, after))
    SELECT i.n, i.run_name::text, i.key::text, i.generation, i.payload_id::text, a.canonical, i.lease_until, i.recorded_at,
        (SELECT jsonb_agg(jsonb_build_object('step', s.name, 'epoch', s.epoch, 'branch', s.branch, 'state', m.state)
            ORDER BY m.id) FROM fencing_claim m JOIN fencing_step s ON s.id = m.step_id WHERE m.intent_id = i.intent_id)
    FROM good AS i
      JOIN LATERAL (SELECT b.canonical FROM fencing_action b WHERE b.payload_digest = i.payload_id LIMIT 1) a ON true;
END $$;

-- A step as everybody but a path reads it, with all that its object needs. A plain read: of one moment, without locks.
-- Keep it what the planner puts into the query that asks (one SELECT in SQL, stable, no SET), as a part of its own
-- (LIMIT): begun anew for each step, a query of so many parts costs more than what it reads. What leaves as text is
-- `json`, here and below: `jsonb` is sorted and packed first, and costs a third more.
DROP FUNCTION IF EXISTS fence_step_view(uuid);
DROP FUNCTION IF EXISTS fence_step_views(uuid);
CREATE FUNCTION fence_step_views(p_step uuid) RETURNS TABLE (step json)
LANGUAGE sql STABLE AS $$
    SELECT json_build_object('name', s.name, 'epoch', s.epoch, 'branch', s.branch, 'phase', s.phase,
        'reason', s.reason, 'key', s.key, 'deadline_at', s.deadline_at, 'is_correlated', s.is_correlated,
        'difference', s.difference, 'pinned_digest', s.pinned_digest, 'pinned_tool', s.pinned_tool,
        'votes', (SELECT coalesce(json_agg(json_build_object('path', v.path, 'digest', v.digest, 'tool', v.tool,
            'abstain', v.abstain, 'is_late', v.is_late, 'received_at', v.received_at) ORDER BY v.received_at, v.id), '[]')
          FROM fencing_vote v WHERE v.step_id = s.id),
        'commit', CASE WHEN k.id IS NOT NULL THEN json_build_object('token', k.token, 'authority', k.authority,
            'grant', (SELECT g.name FROM fencing_grant g WHERE g.id = k.grant_id), 'payload_digest', k.payload_id,
            'key', k.key, 'closed_at', k.closed_at, 'closed_reason', k.closed_reason) END,
        'intent', (SELECT json_build_object('id', t.id, 'state', t.state, 'generation', t.generation,
            'settled', coalesce((SELECT json_build_object('outcome', o.outcome,
                'response', convert_from(o.response, 'UTF8'), 'at', o.recorded_at, 'by', coalesce(u.username, w.name))
              FROM fencing_outcome o LEFT JOIN fencing_credential w ON w.id = o.by_id
                LEFT JOIN auth_user u ON u.id = o.person_id WHERE o.id = t.outcome_id),
              (SELECT json_build_object('outcome', 'succeeded', 'response', NULL, 'at', e.adopted_at,
                'by', u.username)
              FROM fencing_observedeffect e JOIN auth_user u ON u.id = e.adopter_id WHERE e.adopted_by_id = t.id)))
          FROM fencing_intent t WHERE t.id = coalesce(k.intent_id,
            (SELECT m.intent_id FROM fencing_claim m WHERE m.step_id = s.id AND m.state = 'open'))))
    FROM fencing_step s LEFT JOIN LATERAL (SELECT a.* FROM fencing_commit a WHERE a.step_id = s.id LIMIT 1) k ON true
    WHERE s.id = p_step LIMIT 1;
$$;

-- H5, F10: steps of runs as their planner, or anybody but a path, reads them.
DROP FUNCTION IF EXISTS fence_straight_reads(jsonb);
CREATE FUNCTION fence_straight_reads(p jsonb) RETURNS TABLE (n integer, step json)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
BEGIN
  RETURN QUERY
    SELECT i.n, view.step
    FROM jsonb_to_recordset(p) AS i(n integer, run text, step text, epoch bigint, by_id uuid, "group" text)
      JOIN LATERAL (SELECT a.id, a.owner_group FROM fencing_run a WHERE a.name = i.run LIMIT 1) r ON true
      JOIN LATERAL (SELECT a.id FROM fencing_step a
          WHERE a.run_id = r.id AND a.name = i.step AND a.epoch = i.epoch LIMIT 1) s ON true
      JOIN LATERAL (SELECT a.* FROM fencing_credential a WHERE a.id = i.by_id LIMIT 1) c ON true
      LEFT JOIN LATERAL (SELECT a.is_active FROM auth_user a WHERE a.id = c.person_id LIMIT 1) h ON true
      JOIN LATERAL fence_step_views(s.id) view ON true
    WHERE (i."group" IS NULL OR (r.owner_group = i."group" AND c."group" = i."group"))
      AND c.revoked_at IS NULL AND (c.expires_at IS NULL OR c.expires_at > clock_timestamp())
      AND (c.person_id IS NULL OR h.is_active);
END $$;

-- The feed of one group's planners after a place in it, in the order of (transaction, number). Numbers are handed out
-- before commit, so only rows of transactions that are older than any open one are shown: nothing can come to stand
-- before them (design 10).
DROP FUNCTION IF EXISTS fence_feed(text, bigint, bigint, integer);
CREATE FUNCTION fence_feed(p_group text, p_transaction bigint, p_number bigint, p_limit integer)
RETURNS TABLE (transaction bigint, number bigint, at timestamptz, what text, run text, step json)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
BEGIN
  RETURN QUERY
    SELECT f.transaction, f.id, f.at, f.what::text, r.name::text, view.step
    FROM (SELECT e.* FROM fencing_feedevent e
        WHERE e.owner_group = p_group AND (e.transaction, e.id) > (p_transaction, p_number)
          AND e.transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        ORDER BY e.transaction, e.id LIMIT p_limit) f
      JOIN LATERAL (SELECT a.name FROM fencing_run a WHERE a.id = f.run_id LIMIT 1) r ON true
      JOIN LATERAL fence_step_views(f.step_id) view ON true
    ORDER BY f.transaction, f.id;
END $$;

-- F9: what is due, and of it the plain candidates for a commit by agreement: proposed on the trunk, every vote with its
-- action, one digest on record, and nobody else's intent of that key. Whether the tool's required paths have voted is
-- for `protocol.fence` to say. Locks as `fence_lock_due` takes them; `waiting` tells of how much was due.
DROP FUNCTION IF EXISTS fence_straight_due(integer);
CREATE FUNCTION fence_straight_due(p_limit integer) RETURNS json
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  wanted uuid[];
  wanted_runs uuid[];
  run_ids uuid[];
  step_ids uuid[];
  steps json;
BEGIN
  SELECT array_agg(q.id), array_agg(DISTINCT q.run_id) INTO wanted, wanted_runs FROM (
    SELECT id, run_id FROM fencing_step WHERE due_at <= (SELECT clock_timestamp()) ORDER BY due_at LIMIT p_limit) q;
  IF wanted IS NULL THEN RETURN NULL; END IF;
  SELECT array_agg(q.id) INTO run_ids FROM (
    SELECT id FROM fencing_run WHERE id = ANY (wanted_runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) q;
  SELECT array_agg(q.id) INTO step_ids FROM (
    SELECT id FROM fencing_step WHERE id = ANY (wanted) AND run_id = ANY (run_ids) AND due_at <= clock_timestamp()
      AND phase = 'proposed' AND branch IS NULL ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) q;
  SELECT json_agg(json_build_object('id', s.id, 'run_id', s.run_id, 'run', r.name, 'owner_group', r.owner_group,
      'step', s.name, 'epoch', s.epoch, 'registry', s.registry, 'digest', v.digest, 'tool', v.tool,
      'key', k.key, 'deadline_at', s.deadline_at, 'pinned_digest', s.pinned_digest,
      'pinned_payload', s.pinned_payload_id, 'pinned_tool', s.pinned_tool, 'votes', v.votes) ORDER BY s.id) INTO steps
    FROM unnest(step_ids) AS i(id)
      JOIN LATERAL (SELECT a.* FROM fencing_step a WHERE a.id = i.id LIMIT 1) s ON true
      JOIN LATERAL (SELECT a.name, a.owner_group FROM fencing_run a WHERE a.id = s.run_id LIMIT 1) r ON true
      JOIN LATERAL (SELECT min(a.digest) AS digest, max(a.digest) AS last, min(a.tool) AS tool, max(a.tool) AS last_tool,
            count(*) FILTER (WHERE a.payload_id IS NULL OR a.fault IS NOT NULL) AS odd,
            json_agg(json_build_object('path', a.path, 'digest', a.digest, 'payload', a.payload_id, 'tool', a.tool,
              'fault', a.fault, 'model', a.model, 'prompt', a.prompt) ORDER BY a.received_at, a.id) AS votes
          FROM fencing_vote a WHERE a.step_id = s.id) v ON true
      CROSS JOIN LATERAL (SELECT coalesce(s.key, v.digest || ':' || s.occurrence) AS key) k
    WHERE v.odd = 0 AND v.digest = v.last AND v.tool = v.last_tool
      AND (s.pinned_digest IS NULL OR s.pinned_digest = v.digest) AND (s.pinned_tool IS NULL OR s.pinned_tool = v.tool)
      AND (SELECT true FROM fencing_intent t WHERE t.run_id = s.run_id AND t.key = k.key LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_claim m WHERE m.step_id = s.id LIMIT 1) IS NULL;
  RETURN json_build_object('waiting', cardinality(wanted), 'steps', coalesce(steps, '[]'), 'now', clock_timestamp());
END $$;

-- K1, L1: what the fencer decided of those candidates: intent, claim, commit, step, audit and feed of each.
CREATE OR REPLACE FUNCTION fence_straight_commits(p jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
DECLARE
  steps uuid[];
  moments timestamptz[];
  correlations boolean[];
BEGIN
  WITH item AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(p) AS i(n integer, id uuid, intent_id uuid, claim_id uuid, step_id uuid,
        run_id uuid, run text, owner_group text, step text, epoch bigint, registry bigint, tool text, payload text,
        digest text, key text, token text, kid text, actor text, at timestamptz, correlated boolean)),
  opened AS (
    INSERT INTO fencing_intent (id, run_id, key, generation, fence_digest, tool, registry, state, opened_at)
      SELECT i.intent_id, i.run_id, i.key, 1, i.digest, i.tool, i.registry, 'ready', i.at FROM item AS i),
  claimed AS (
    INSERT INTO fencing_claim (id, run_id, intent_id, step_id, state, claimed_at)
      SELECT i.claim_id, i.run_id, i.intent_id, i.step_id, 'won', i.at FROM item AS i),
  told AS (
    INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, before, after, reason, source, request)
      SELECT i.actor, 'system', told.verb, told.kind, told.subject, i.run, told.before, told.after, '', '', ''
      FROM item AS i CROSS JOIN LATERAL (VALUES
        ('open_intent', 'intent', i.intent_id::text, NULL, jsonb_build_object('key', i.key, 'generation', 1)),
        ('move_intent', 'intent', i.intent_id::text, '{"state": "held"}'::jsonb, '{"state": "ready"}'::jsonb),
        ('move_step', 'step', i.run || '/' || i.step || '/' || i.epoch, '{"phase": "proposed"}'::jsonb,
            '{"phase": "committed", "reason": "agreement"}'::jsonb),
        ('commit_step', 'commit', i.id::text, NULL, jsonb_build_object('step',
            i.run || '/' || i.step || '/' || i.epoch, 'authority', 'agreement', 'grant', NULL, 'payload_digest',
            i.payload, 'key', i.key))) AS told(verb, kind, subject, before, after)),
  fed AS (
    INSERT INTO fencing_feedevent (what, run_id, step_id, owner_group)
      SELECT 'decided', i.run_id, i.step_id, i.owner_group FROM item AS i),
  committed AS (
    INSERT INTO fencing_commit (id, run_id, step_id, step_name, epoch, tool, payload_id, fence_digest, key, authority,
        intent_id, token, kid, committed_at)
      SELECT i.id, i.run_id, i.step_id, i.step, i.epoch, i.tool, i.payload, i.digest, i.key, 'agreement', i.intent_id,
          i.token, i.kid, i.at
      FROM item AS i)
  SELECT array_agg(i.step_id), array_agg(i.at), array_agg(i.correlated) INTO steps, moments, correlations FROM item AS i;
  -- A statement of its own: commits are judged while their steps are undecided.
  UPDATE fencing_step AS s SET phase = 'committed', reason = 'agreement', decided_at = i.at, due_at = NULL,
      is_correlated = i.correlated
    FROM unnest(steps, moments, correlations) AS i(step_id, at, correlated)
    WHERE s.id = i.step_id;
END $$;
