"""The guards of the registry as SQL: a version that weakens the fence needs the approval of another person (T1).

They say the rules of `protocol/weakening.py` once more, so that a statement typed at the database is judged like a
click. Where the two do not agree one refuses, and nothing becomes current; a test plays random changes on both.
"""

from __future__ import annotations

_POLICY = "({definition} -> 'policy' ->> '{name}')::bigint"


def _texts(definition: str, path: str) -> str:
    """The elements of an array as their JSON text; canonical, so that equal texts are equal values."""
    return f"ARRAY(SELECT value::text FROM json_array_elements({definition} {path}))"  # noqa: S608 - names of our own


def _less(name: str) -> str:
    return f"{_POLICY.format(definition='fresh', name=name)} < {_POLICY.format(definition='last', name=name)}"


def _more(name: str) -> str:
    return f"{_POLICY.format(definition='fresh', name=name)} > {_POLICY.format(definition='last', name=name)}"


def _differs(path: str) -> str:
    return f"(fresh {path})::text IS DISTINCT FROM (last {path})::text"


def _gains(path: str) -> str:
    return f"NOT {_texts('fresh', path)} <@ {_texts('last', path)}"


def _loses(path: str) -> str:
    return f"NOT {_texts('last', path)} <@ {_texts('fresh', path)}"


_MEMBERS = (
    "tool", "effect", "idempotent", "optimistic", "mode", "advisory", "sensitive", "resources", "compensator",
    "args_schema", "endpoint", "credential", "hints", "policy",
)  # fmt: skip
_POLICY_MEMBERS = (
    "required_paths", "trusted_path", "deadline_s", "grace_s", "max_grant_ttl_s", "grant_approvals",
    "compensation_approvals", "lease_s", "max_deliveries", "timeout_s", "nothing_done",
)  # fmt: skip


def _unknown(path: str, known: tuple[str, ...]) -> str:
    names = ", ".join(f"'{name}'" for name in known)
    return f"EXISTS (SELECT FROM json_object_keys(fresh {path}) AS name WHERE name NOT IN ({names}))"


WEAKENS = "\n    OR ".join(
    [
        "fresh ->> 'effect' = 'read_only' AND last ->> 'effect' <> 'read_only'",
        "(fresh ->> 'idempotent')::boolean AND NOT (last ->> 'idempotent')::boolean",
        "(fresh ->> 'optimistic')::boolean AND NOT (last ->> 'optimistic')::boolean",
        _differs("-> 'mode'"),
        _differs("-> 'endpoint'"),
        _differs("-> 'credential'"),
        _differs("-> 'compensator'"),
        "(last -> 'args_schema')::text <> 'null' AND " + _differs("-> 'args_schema'"),
        _gains("-> 'advisory'"),
        _loses("-> 'sensitive'"),
        _loses("-> 'resources'"),
        _loses("-> 'policy' -> 'required_paths'"),
        _differs("-> 'policy' -> 'trusted_path'"),
        _gains("-> 'policy' -> 'nothing_done'"),
        _less("grace_s"),
        _less("grant_approvals"),
        _less("compensation_approvals"),
        _less("lease_s"),
        _less("timeout_s"),
        _more("max_grant_ttl_s"),
        _more("max_deliveries"),
        _unknown("", _MEMBERS),
        _unknown("-> 'policy'", _POLICY_MEMBERS),
    ]
)

VERSION_GUARD = """
fresh := convert_from(NEW.definition, 'UTF8')::json;
SELECT id, version, definition INTO its_last FROM fencing_toolversion WHERE tool = NEW.tool ORDER BY id DESC LIMIT 1;

-- What the other guards read of a version are its columns: they say what the definition says.
wrong := CASE
    WHEN NEW.version > coalesce(its_last.version, 0) + 1
        THEN 'tool_versions_in_order: T1, the next version has the next number'
    WHEN (NEW.tool, NEW.is_read_only, NEW.is_idempotent, NEW.is_optimistic, NEW.mode, NEW.trusted_path)
        IS DISTINCT FROM (fresh ->> 'tool', fresh ->> 'effect' = 'read_only', (fresh ->> 'idempotent')::boolean,
            (fresh ->> 'optimistic')::boolean, fresh ->> 'mode', fresh -> 'policy' ->> 'trusted_path')
        OR (NEW.grant_approvals, NEW.max_grant_ttl_s) IS DISTINCT FROM
            ((fresh -> 'policy' ->> 'grant_approvals')::smallint, (fresh -> 'policy' ->> 'max_grant_ttl_s')::integer)
        OR NEW.required_paths::text[] IS DISTINCT FROM
            ARRAY(SELECT json_array_elements_text(fresh -> 'policy' -> 'required_paths'))
        THEN 'tool_columns_say_the_definition: T1, a column and the definition do not agree'
END;

IF wrong IS NULL AND NEW.change_id IS NOT NULL THEN
    -- So that nobody refuses, withdraws or approves it meanwhile.
    SELECT tool, base_id, digest, proposer_id, approvals_needed, expires_at, closed_at INTO its_change
    FROM fencing_toolchange WHERE id = NEW.change_id FOR NO KEY UPDATE;
    wrong := CASE
        WHEN (its_change.tool, its_change.base_id, its_change.digest)
            IS DISTINCT FROM (NEW.tool, its_last.id, NEW.digest)
            THEN 'tool_change_as_approved: T1, what was approved is another definition, or a change of another version'
        WHEN its_change.closed_at IS NOT NULL OR its_change.expires_at <= clock_timestamp()
            THEN 'tool_change_open: T1, the change no longer waits'
        WHEN its_change.approvals_needed > (SELECT count(*) FROM fencing_toolchangeapproval
                WHERE change_id = NEW.change_id AND person_id IS DISTINCT FROM its_change.proposer_id)
            THEN 'tool_change_approved: T1, a change that weakens the fence waits for a second administrator'
    END;
ELSIF wrong IS NULL AND its_last.id IS NOT NULL
    -- Outside production `load_tools` weakens at once. Where nobody recorded the mode, it is production.
    AND NOT EXISTS (SELECT FROM fencing_deployment WHERE mode = 'local')
THEN
    last := convert_from(its_last.definition, 'UTF8')::json;
    -- What cannot be compared weakens.
    IF NEW.weakens <> '{}' OR coalesce(<weakens>, true) THEN
        wrong := 'tool_change_approved: T1, a change that weakens the fence waits for a second administrator';
    END IF;
END IF;
""".replace("<weakens>", WEAKENS)

APPROVAL_GUARD = """
SELECT proposer_id, digest, expires_at, closed_at INTO its_change
FROM fencing_toolchange WHERE id = NEW.change_id FOR NO KEY UPDATE;
wrong := CASE
    WHEN its_change.proposer_id = NEW.person_id
        THEN 'tool_change_approved_by_another: T1, who proposed a change does not approve it'
    WHEN its_change.digest IS DISTINCT FROM NEW.digest
        THEN 'tool_change_as_shown: T1, another definition was shown'
    WHEN its_change.closed_at IS NOT NULL OR its_change.expires_at <= clock_timestamp()
        THEN 'tool_change_open: T1, the change no longer waits'
END;
"""

CLOSING_GUARD = """
wrong := CASE
    WHEN (NEW.closed_as = 'approved') IS DISTINCT FROM EXISTS (SELECT FROM fencing_toolversion WHERE change_id = NEW.id)
        THEN 'tool_change_closes_as_it_went: T1, it is approved where it became a version, and only there'
    WHEN NEW.closed_as = 'withdrawn' AND NEW.closed_by_id IS DISTINCT FROM NEW.proposer_id
        THEN 'tool_change_withdrawn_by_its_own: T1, only who proposed a change withdraws it'
END;
"""
