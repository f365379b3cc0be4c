"""L8: what a tool's ledger row is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.compensations import OPEN, TRANSITIONS, State, undoing
from fencing.protocol.ledgers import Match, Matched, Seen, Wanted, match
from fencing.protocol.strict_json import Json
from fencing.protocol.tools import ToolDefinition, read_tool

HERS, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def wanted(intent: str = "i1", **values: object) -> Wanted:
    return Wanted(**{"tool": "refund", "digest": HERS, "delivery": "d1", "intent": intent} | values)  # type: ignore[arg-type]


def test_a_key_of_ours_names_its_intent() -> None:
    seen = Seen(tool="refund", key="fence-1")
    assert match(seen, of_key=wanted(), of_payload=()) == Matched(match=Match.INTENT, wanted=wanted())


def test_a_second_row_of_one_key_happened_twice() -> None:
    seen = Seen(tool="refund", digest=HERS, key="fence-1")
    assert match(seen, of_key=wanted(has_effect=True), of_payload=()).match is Match.DOUBLED


def test_a_key_that_we_never_gave_is_an_escape_even_where_the_payload_was_delivered() -> None:
    seen = Seen(tool="refund", digest=HERS, key="somebody-else-s")
    assert match(seen, of_key=None, of_payload=[wanted()]).match is Match.ESCAPE


def test_another_payload_or_tool_under_our_key_is_an_escape() -> None:
    assert match(Seen(tool="refund", digest=OTHER, key="k"), of_key=wanted(), of_payload=()).match is Match.ESCAPE
    assert match(Seen(tool="wire", key="k"), of_key=wanted(), of_payload=()).match is Match.ESCAPE


def test_without_a_key_the_oldest_delivery_without_an_effect_is_taken() -> None:
    oldest_first = [wanted("i1", has_effect=True), wanted("i2", may_be_out=False), wanted("i3"), wanted("i4")]
    found = match(Seen(tool="refund", digest=HERS), of_key=None, of_payload=oldest_first)
    assert found.wanted is not None
    assert found.wanted.intent == "i3"


def test_a_row_of_what_is_on_record_as_not_having_happened_contradicts_it() -> None:
    found = match(Seen(tool="refund", key="k"), of_key=wanted(may_be_out=False), of_payload=())
    assert (found.match, found.contradicts) == (Match.INTENT, True)


def test_a_compensation_s_key_is_no_intent_s() -> None:
    of_key = wanted(intent=None, compensation="c1")  # type: ignore[arg-type]
    assert match(Seen(tool="refund", key="k"), of_key=of_key, of_payload=()).match is Match.COMPENSATION


deliveries = st.builds(
    wanted,
    st.sampled_from(["i1", "i2", "i3"]),
    has_effect=st.booleans(),
    may_be_out=st.booleans(),
    digest=st.sampled_from([HERS, OTHER]),
    tool=st.sampled_from(["refund", "wire"]),
)


@given(
    st.builds(Seen, tool=st.sampled_from(["refund", "wire"]), digest=st.sampled_from([HERS, OTHER, None]),
              key=st.sampled_from([None, "k"])),
    st.none() | deliveries,
    st.lists(deliveries, max_size=4),
)  # fmt: skip
def test_nothing_belongs_to_another_tool_or_payload_and_no_effect_is_claimed_twice(
    seen: Seen, of_key: Wanted | None, of_payload: list[Wanted]
) -> None:
    found = match(seen, of_key=of_key, of_payload=of_payload)
    if found.wanted is None:
        assert found.match is Match.ESCAPE
        return
    assert found.wanted.tool == seen.tool
    assert seen.digest in (None, found.wanted.digest)
    assert found.wanted.has_effect is (found.match is Match.DOUBLED)
    if found.match is Match.DOUBLED:
        assert seen.key is not None


def test_final_states_of_a_compensation_lead_nowhere_and_open_ones_somewhere() -> None:
    assert {state for state in State if not TRANSITIONS[state]} == set(State) - OPEN


def test_what_cannot_be_built_is_for_a_person() -> None:
    definition = read_tool(
        {
            "tool": "refund",
            "compensator": {
                "tool": "reverse",
                "args": {
                    "id": {"from": "response", "pointer": "/id"},
                    "cents": {"from": "action", "pointer": "/args/c"},
                },
            },
        }
    )
    assert isinstance(definition, ToolDefinition)
    action: Json = {"tool": "refund", "args": {"c": 1}}
    built = undoing(definition, action, {"id": "r1"}, lambda _tool: None)
    assert built is not None
    assert built.args == {"id": "r1", "cents": 1}
    assert undoing(definition, action, None, lambda _tool: None) is None
    assert undoing(definition, None, {"id": "r1"}, lambda _tool: None) is None
    assert undoing(None, action, {"id": "r1"}, lambda _tool: None) is None


def test_what_would_not_fit_the_tool_that_is_called_is_for_a_person() -> None:
    """The template can be filled; what comes of it would be refused at the gateway after a person had approved it."""
    schema: Json = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    pointed: Json = {"from": "response", "pointer": "/id", "default": None}
    effect = read_tool({"tool": "refund", "compensator": {"tool": "reverse", "args": {"id": pointed}}})
    called = read_tool({"tool": "reverse", "args_schema": schema})
    assert isinstance(effect, ToolDefinition)
    assert isinstance(called, ToolDefinition)
    action: Json = {"tool": "refund", "args": {}}
    built = undoing(effect, action, {"id": "r1"}, {"reverse": called}.get)
    assert built is not None
    assert built.args == {"id": "r1"}
    assert undoing(effect, action, None, {"reverse": called}.get) is None
