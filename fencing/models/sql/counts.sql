-- Counts: adding up what the triggers noted, judging commits on the way, and counting everything anew.
-- The tables and who writes them: fencing/models/counts.py. What gives a table is dropped first: its columns may change.

-- What the facts say of a commit. I1: by the time of the commit the step shows another digest, or an agreement lacks a
-- path. F10: whether its paths were correlated; that is settled with its authority, so that a commit under a grant is
-- asked when agreement was added to it.
DROP FUNCTION IF EXISTS fence_judged(uuid[]);
CREATE FUNCTION fence_judged(p_commits uuid[])
RETURNS TABLE (commit uuid, is_divergent boolean, is_correlated boolean, authority varchar, is_under_grant boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF cardinality(p_commits) = 0 THEN RETURN; END IF;
  -- Planned anew each time: a few commits are looked up one by one, all of them (NULL) are joined as whole tables.
  RETURN QUERY EXECUTE $judge$
    SELECT c.id, coalesce(s.pinned_digest <> c.fence_digest, false) OR coalesce(said.is_divided, false)
        OR (c.grant_id IS NULL AND NOT coalesce(
            (SELECT t.required_paths FROM fencing_toolversion t
              WHERE t.tool = c.tool AND t.id <= s.registry ORDER BY t.id DESC LIMIT 1) <@ said.paths, false)),
        s.is_correlated, c.authority, c.grant_id IS NOT NULL
      FROM fencing_commit c JOIN fencing_step s ON s.id = c.step_id LEFT JOIN (
        SELECT d.id, bool_or(v.digest <> d.fence_digest) AS is_divided,
            array_agg(v.path) FILTER (WHERE v.digest = d.fence_digest) AS paths
          FROM fencing_commit d JOIN fencing_vote v ON v.step_id = d.step_id
         WHERE v.digest IS NOT NULL AND v.received_at <= d.committed_at AND ($1 IS NULL OR d.id = ANY ($1))
         GROUP BY d.id) said ON said.id = c.id
     WHERE $1 IS NULL OR c.id = ANY ($1)
  $judge$ USING p_commits;
END $$;

-- What adding up changes on commits is worth: a new one once, and one that gained agreement once more.
DROP FUNCTION IF EXISTS fence_worth(uuid[], uuid[]);
CREATE FUNCTION fence_worth(p_new uuid[], p_agreed uuid[]) RETURNS TABLE (name text, by bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH judged AS MATERIALIZED (SELECT * FROM fence_judged(p_new || p_agreed))
  SELECT 'commit:divergent', count(*) FROM judged WHERE is_divergent AND commit = ANY (p_new) HAVING count(*) > 0
  UNION ALL
  SELECT 'commit:grant', count(*) FROM judged WHERE is_under_grant AND commit = ANY (p_new) HAVING count(*) > 0
  UNION ALL
  SELECT 'commit:correlated', count(*) FROM judged
   WHERE is_correlated AND (NOT is_under_grant AND commit = ANY (p_new) OR commit = ANY (p_agreed)) HAVING count(*) > 0;
END $$;

-- Every count as of now, whether it was added up already or not: of all time, and with p_since of the hours from then on.
DROP FUNCTION IF EXISTS fence_counts(timestamptz);
CREATE FUNCTION fence_counts(p_since timestamptz)
RETURNS TABLE (name varchar, hour timestamptz, count bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  IF p_since IS NOT NULL THEN
    RETURN QUERY
    SELECT every.name, every.hour, sum(every.count)::bigint FROM (
      SELECT t.name, t.hour, t.count FROM fencing_total t WHERE t.hour >= p_since
      UNION ALL SELECT c.name, c.hour, c.by FROM fencing_change c WHERE c.hour >= p_since) every GROUP BY 1, 2;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT every.name::varchar, NULL::timestamptz, sum(every.count)::bigint FROM (
    SELECT t.name, t.count FROM fencing_total t WHERE t.hour = timestamptz 'epoch'
    UNION ALL SELECT c.name, c.by FROM fencing_change c
    UNION ALL SELECT w.name, w.by FROM fence_worth(
      ARRAY(SELECT c.commit FROM fencing_change c WHERE c.name = 'commit'),
      ARRAY(SELECT c.commit FROM fencing_change c WHERE c.name = 'commit:both')) w) every GROUP BY 1;
END $$;

-- Add up at most p_limit changes; gives how many. One at a time; who comes second finds nothing to do.
CREATE OR REPLACE FUNCTION fence_sum_changes(p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET enable_seqscan = off AS $$
DECLARE
  summed integer;
BEGIN
  IF NOT pg_try_advisory_xact_lock(x'66656e6365636e74'::bigint) THEN RETURN 0; END IF;  -- "fencecnt"
  WITH gone AS (
    DELETE FROM fencing_change
      WHERE id <= (SELECT max(first.id) FROM (SELECT id FROM fencing_change ORDER BY id LIMIT p_limit) first)
    RETURNING name, hour, by, commit),
  found AS (
    SELECT name, hour, by FROM gone
    UNION ALL SELECT w.name, NULL, w.by FROM fence_worth(
      ARRAY(SELECT commit FROM gone WHERE name = 'commit'), ARRAY(SELECT commit FROM gone WHERE name = 'commit:both')) w),
  sums AS (
    INSERT INTO fencing_total AS t (name, hour, count)
    SELECT name, timestamptz 'epoch', sum(by) FROM found GROUP BY name
    UNION ALL SELECT name, hour, sum(by) FROM found WHERE hour IS NOT NULL GROUP BY name, hour
    ON CONFLICT (name, hour) DO UPDATE SET count = t.count + excluded.count)
  SELECT count(*) INTO summed FROM gone;
  RETURN summed;
END $$;

-- The same counts, from the facts: every table is read as a whole.
DROP FUNCTION IF EXISTS fence_plain_counts();
CREATE FUNCTION fence_plain_counts()
RETURNS TABLE (name text, hour timestamptz, count bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT 'step:' || s.phase, to_timestamp(floor(extract(epoch FROM s.decided_at) / 3600) * 3600), count(*)
    FROM fencing_step s WHERE s.phase IN ('committed', 'rejected', 'exempt') GROUP BY 1, 2;
  RETURN QUERY
  SELECT 'intent:' || i.state || ':' || coalesce(i.tool, ''), NULL::timestamptz, count(*)
    FROM fencing_intent i WHERE i.state IN ('succeeded', 'failed') GROUP BY 1;
  RETURN QUERY
  SELECT v.name, NULL::timestamptz, v.count FROM (
    SELECT count(*) AS all_of_them,
        count(*) FILTER (WHERE is_under_grant) AS under_grants,
        count(*) FILTER (WHERE authority = 'both') AS on_both,
        count(*) FILTER (WHERE is_divergent) AS divergent,
        count(*) FILTER (WHERE is_correlated AND authority IN ('agreement', 'both')) AS correlated
      FROM fence_judged(NULL)) found
    CROSS JOIN LATERAL (VALUES ('commit', all_of_them), ('commit:grant', under_grants), ('commit:both', on_both),
      ('commit:divergent', divergent), ('commit:correlated', correlated)) AS v(name, count);
  RETURN QUERY
  SELECT CASE WHEN d.number = 1 THEN 'delivery' ELSE 'delivery:repeated' END, NULL::timestamptz, count(*)
    FROM fencing_delivery d GROUP BY 1;
  RETURN QUERY
  SELECT 'side_log:' || l.kind || ':' || l.reason,
      to_timestamp(floor(extract(epoch FROM l.recorded_at) / 3600) * 3600), count(*)
    FROM fencing_sidelogrow l GROUP BY 1, 2;
  RETURN QUERY SELECT 'effect:' || e.match || ':' || e.tool, NULL::timestamptz, count(*)
    FROM fencing_observedeffect e GROUP BY 1;
  RETURN QUERY SELECT 'acknowledged', NULL::timestamptz, count(*) FROM fencing_acknowledgement a;
  RETURN QUERY SELECT 'grade', NULL::timestamptz, count(*) FROM fencing_grade g;
  RETURN QUERY SELECT 'grade:' || f.flaw, NULL::timestamptz, count(*) FROM fencing_gradefinding f
    WHERE f.grade_id IS NOT NULL GROUP BY 1;
  RETURN QUERY SELECT 'fragment:superseded', NULL::timestamptz, coalesce(sum(e.dropped), 0)::bigint
    FROM fencing_attemptepoch e;
  RETURN QUERY SELECT 'spend:zombie', NULL::timestamptz, count(*) FROM fencing_spend s WHERE s.is_zombie;
END $$;

-- Count everything anew, while nobody writes. For the owner alone: after a load or a restore that passed the triggers by.
CREATE OR REPLACE FUNCTION fence_count_anew() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  LOCK TABLE fencing_step, fencing_intent, fencing_commit, fencing_delivery, fencing_sidelogrow, fencing_acknowledgement,
    fencing_observedeffect, fencing_grade, fencing_gradefinding, fencing_attemptepoch, fencing_spend, fencing_change,
    fencing_total IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM fencing_change;
  DELETE FROM fencing_total;
  INSERT INTO fencing_total (name, hour, count)
  WITH plain AS MATERIALIZED (SELECT * FROM fence_plain_counts())
  SELECT name, timestamptz 'epoch', sum(count) FROM plain GROUP BY name
  UNION ALL SELECT name, hour, sum(count) FROM plain WHERE hour IS NOT NULL GROUP BY name, hour;
END $$;
REVOKE EXECUTE ON FUNCTION fence_count_anew() FROM PUBLIC;
