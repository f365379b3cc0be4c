-- The straight way of the deliverer: the plain case of taking what is due of push tools, one statement for many.
--
-- As in `straight.sql`: what is plain is written as the careful way would write it (`gateway/pushing.py`), what is not is
-- left untouched, and nothing is refused. Plain is the first try of an effect that one standing commit by agreement wants
-- and no other step claims, of a push tool that is registered now as it was then, whose breaker is closed and whose rate
-- nobody limits.
--
-- The first row tells how it went, and has nothing else:
--   busy    another worker takes at this moment: look again in a moment
--   stale   the registry has a version that the caller has not read
--   all     what was due and had room is among the rows that follow
--   rest    something that is due was left: go the careful way too
-- Each further row (`call`) is a delivery that was admitted and is to be called now.
CREATE OR REPLACE FUNCTION fence_straight_pushes(p jsonb)
RETURNS TABLE (told text, intent uuid, delivery uuid, tool text, token text, body bytea, idempotency_key text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET join_collapse_limit = 1
AS $$
#variable_conflict use_column
DECLARE
  wanted uuid[];
  locked uuid[];
  made uuid[];
  left_over boolean;
BEGIN
  -- One at a time takes work (`ONE_TAKES`), so that caps hold over all workers.
  IF NOT pg_try_advisory_xact_lock(x'66656e6365707368'::bigint) THEN
    RETURN QUERY SELECT 'busy', NULL::uuid, NULL::uuid, NULL, NULL, NULL::bytea, NULL;
    RETURN;
  END IF;
  IF (p->>'registry')::bigint <> (SELECT coalesce(max(t.id), 0) FROM fencing_toolversion t) THEN
    RETURN QUERY SELECT 'stale', NULL::uuid, NULL::uuid, NULL, NULL, NULL::bytea, NULL;
    RETURN;
  END IF;

  -- What `DUE` of the careful way would find, so many of each tool as its cap leaves, each tool in its turn. Of what is
  -- not plain as a whole tool it is enough to know that there is something, unless its breaker rests.
  WITH asked AS MATERIALIZED (
    SELECT i.tool, i.many, i.is_plain AND coalesce(b.state, 'closed') = 'closed' AS is_plain
    FROM jsonb_to_recordset(p->'tools') AS i(tool text, many integer, is_plain boolean)
      JOIN LATERAL (SELECT true AS is_there FROM fencing_intent a WHERE a.tool = i.tool AND a.state = 'ready' LIMIT 1) any_
          ON true
      LEFT JOIN LATERAL (SELECT a.state, a.until FROM fencing_breaker a WHERE a.tool = i.tool LIMIT 1) b ON true
    WHERE coalesce(b.state, 'closed') = 'closed' OR b.until IS NULL OR b.until <= clock_timestamp()),
  flying AS MATERIALIZED (
    SELECT q.tool, sum(q.many)::bigint AS many FROM (
      SELECT a.tool, count(*) AS many FROM fencing_intent a
        WHERE a.state = 'in_flight' AND a.tool = ANY (ARRAY(SELECT asked.tool FROM asked)) GROUP BY 1
      UNION ALL
      SELECT c.tool, count(*) FROM fencing_compensation a
        JOIN LATERAL (SELECT b.tool FROM fencing_action b WHERE b.payload_digest = a.payload_id LIMIT 1) c ON true
        WHERE a.state = 'in_flight' GROUP BY 1) q GROUP BY 1),
  room AS MATERIALIZED (
    SELECT i.tool, i.is_plain, least(i.many - coalesce((SELECT f.many FROM flying f WHERE f.tool = i.tool), 0),
        (p->>'limit')::integer) AS many
    FROM asked AS i),
  due AS MATERIALIZED (
    SELECT t.id, i.tool, i.is_plain, row_number() OVER (PARTITION BY i.tool ORDER BY t.opened_at, t.id) AS place
    FROM room AS i
      JOIN LATERAL (
        SELECT a.id, a.opened_at FROM fencing_intent a
        WHERE a.tool = i.tool AND a.state = 'ready' AND (a.not_before IS NULL OR a.not_before <= clock_timestamp())
          AND (SELECT v.mode FROM fencing_toolversion v WHERE v.tool = a.tool AND v.id <= a.registry
              ORDER BY v.id DESC LIMIT 1) = 'push'
          AND (SELECT true FROM fencing_freeze f WHERE f.lifted_at IS NULL AND (f.tool IS NULL OR f.tool = a.tool)
              AND (f.run_id IS NULL OR f.run_id = a.run_id) LIMIT 1) IS NULL
          AND (SELECT true FROM fencing_commit k WHERE k.intent_id = a.id AND k.closed_at IS NULL
              AND (a.payload_id IS NULL OR a.payload_id = k.payload_id)
              AND (SELECT true FROM fencing_observedeffect e WHERE e.digest = k.payload_id AND e.match = 'escape'
                  AND e.is_open LIMIT 1) IS NULL LIMIT 1)
        ORDER BY a.opened_at, a.id LIMIT CASE WHEN i.is_plain THEN greatest(i.many, 0) ELSE 1 END) t ON true)
  SELECT (array_agg(q.id ORDER BY q.place, q.tool) FILTER (WHERE q.is_plain))[:(p->>'limit')::integer],
      coalesce(bool_or(NOT q.is_plain), false)
    INTO wanted, left_over FROM due AS q;
  -- P5: what undoes an effect is called as well, and is never plain.
  left_over := left_over OR (SELECT true FROM fencing_compensation a
      JOIN LATERAL (SELECT b.tool FROM fencing_action b WHERE b.payload_digest = a.payload_id LIMIT 1) c ON true
      WHERE a.state = 'approved' AND (a.not_before IS NULL OR a.not_before <= clock_timestamp())
        AND (SELECT true FROM jsonb_to_recordset(p->'tools') AS i(tool text) WHERE i.tool = c.tool LIMIT 1) LIMIT 1)
    IS NOT NULL;
  IF wanted IS NULL THEN
    RETURN QUERY SELECT CASE WHEN left_over THEN 'rest' ELSE 'all' END, NULL::uuid, NULL::uuid, NULL, NULL, NULL::bytea,
      NULL;
    RETURN;
  END IF;

  -- L10: a freeze comes wholly before this, and is seen, or wholly after it, and tells what is out.
  PERFORM pg_advisory_xact_lock_shared(112641513454181);
  SELECT array_agg(q.id) INTO locked FROM (
    SELECT t.id FROM unnest(wanted) AS i(id)
      JOIN LATERAL (SELECT a.run_id, a.step_id FROM fencing_commit a WHERE a.intent_id = i.id AND a.closed_at IS NULL
          LIMIT 1) k ON true
      JOIN LATERAL (SELECT a.id FROM fencing_run a WHERE a.id = k.run_id FOR KEY SHARE SKIP LOCKED) r ON true
      JOIN LATERAL (SELECT a.id FROM fencing_step a WHERE a.id = k.step_id FOR NO KEY UPDATE SKIP LOCKED) s ON true
      JOIN LATERAL (SELECT a.id FROM fencing_intent a WHERE a.id = i.id FOR NO KEY UPDATE SKIP LOCKED) t ON true) q;
  WITH good AS MATERIALIZED (
    SELECT i.n, i.delivery_id, t.id AS intent_id, r.id AS run_id, r.name AS run_name, k.id AS commit_id, k.payload_id,
        now_.at AS admitted_at, now_.at + make_interval(secs => its.lease_s) AS lease_until,
        'fence-' || encode(sha256(convert_to(r.name || E'\n' || t.key || E'\n' || t.generation, 'UTF8')), 'hex')
          AS idempotency_key
    FROM unnest(locked, ARRAY(SELECT (jsonb_array_elements_text(p->'ids'))::uuid)) WITH ORDINALITY
          AS i(intent_id, delivery_id, n)
      JOIN LATERAL (SELECT a.* FROM fencing_intent a WHERE a.id = i.intent_id LIMIT 1) t ON true
      JOIN LATERAL (SELECT a.* FROM fencing_commit a WHERE a.intent_id = t.id AND a.closed_at IS NULL LIMIT 1) k ON true
      JOIN LATERAL (SELECT a.id, a.name FROM fencing_run a WHERE a.id = k.run_id LIMIT 1) r ON true
      JOIN LATERAL (SELECT a.* FROM fencing_step a WHERE a.id = k.step_id LIMIT 1) s ON true
      JOIN LATERAL (SELECT a.lease_s FROM jsonb_to_recordset(p->'tools') AS a(tool text, is_plain boolean, lease_s float8)
          WHERE a.tool = t.tool AND a.is_plain LIMIT 1) its ON true
      CROSS JOIN LATERAL (SELECT clock_timestamp() AS at) now_
    WHERE k.authority = 'agreement' AND k.tool = t.tool
      AND s.phase = 'committed' AND s.registry = t.registry
      -- What is sent where is told by the version that the intent was opened under: the caller has read the newest.
      AND (SELECT v.id FROM fencing_toolversion v WHERE v.tool = t.tool AND v.id <= t.registry ORDER BY v.id DESC LIMIT 1)
        = (SELECT v.id FROM fencing_toolversion v WHERE v.tool = t.tool ORDER BY v.id DESC LIMIT 1)
      AND t.state = 'ready' AND t.not_before IS NULL AND (t.payload_id IS NULL OR t.payload_id = k.payload_id)
      AND (s.pinned_digest IS NULL OR s.pinned_digest = k.fence_digest)
      AND (s.pinned_tool IS NULL OR s.pinned_tool = k.tool)
      -- A vote without a fault had arguments that fit, by the same version.
      AND (SELECT true FROM fencing_vote v WHERE v.step_id = s.id
          AND (v.digest <> k.fence_digest OR v.tool <> k.tool OR v.fault IS NOT NULL) LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_claim m WHERE m.intent_id = t.id AND (m.step_id <> s.id OR m.state <> 'won')
          LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_delivery d WHERE d.intent_id = t.id LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_freeze f WHERE f.lifted_at IS NULL AND (f.run_id IS NULL OR f.run_id = k.run_id)
          AND (f.tool IS NULL OR f.tool = k.tool) LIMIT 1) IS NULL
      AND (SELECT true FROM fencing_observedeffect e WHERE e.digest = k.payload_id AND e.match = 'escape' AND e.is_open
          LIMIT 1) IS NULL),
  told AS (
    INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, before, after, reason, source, request)
      SELECT p->>'actor', 'system', told.verb, told.kind, told.subject, i.run_name, told.before, told.after, '', '', ''
      FROM good AS i CROSS JOIN LATERAL (VALUES
        (1, 'move_intent', 'intent', i.intent_id::text, '{"state": "ready"}'::jsonb, '{"state": "in_flight"}'::jsonb),
        (2, 'admit', 'delivery', i.delivery_id::text, NULL, jsonb_build_object('intent', i.intent_id, 'number', 1,
            'payload_digest', i.payload_id, 'idempotency_key', i.idempotency_key)))
        AS told(place, verb, kind, subject, before, after)
      ORDER BY i.n, told.place),
  delivered AS (
    INSERT INTO fencing_delivery (id, run_id, intent_id, number, commit_id, payload_id, idempotency_key, lease_until,
        admitted_at)
      SELECT i.delivery_id, i.run_id, i.intent_id, 1, i.commit_id, i.payload_id, i.idempotency_key, i.lease_until,
          i.admitted_at
      FROM good AS i)
  SELECT array_agg(i.delivery_id ORDER BY i.n) INTO made FROM good AS i;
  left_over := left_over OR cardinality(wanted) > coalesce(cardinality(made), 0);
  RETURN QUERY
    SELECT CASE WHEN left_over THEN 'rest' ELSE 'all' END, NULL::uuid, NULL::uuid, NULL, NULL, NULL::bytea, NULL;
  IF made IS NULL THEN RETURN; END IF;
  -- A statement of its own: deliveries are judged while their intents are ready.
  RETURN QUERY
    UPDATE fencing_intent AS t SET state = 'in_flight', payload_id = d.payload_id, due_at = d.lease_until
    FROM unnest(made) AS i(id)
      JOIN LATERAL (SELECT a.* FROM fencing_delivery a WHERE a.id = i.id LIMIT 1) d ON true
      JOIN LATERAL (SELECT a.token FROM fencing_commit a WHERE a.id = d.commit_id LIMIT 1) k ON true
      JOIN LATERAL (SELECT a.canonical FROM fencing_action a WHERE a.payload_digest = d.payload_id LIMIT 1) c ON true
    WHERE t.id = d.intent_id
    RETURNING 'call', t.id, d.id, t.tool::text, k.token::text, c.canonical, d.idempotency_key::text;
END $$;
