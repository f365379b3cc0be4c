"""The simulator's pages: the protocol's figures, all thirty-two traces, and failing traces by their names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.http import HttpResponse
from pytest_django import Settings

from dashboard.presenters import failing_traces
from dashboard.presenters.simulator import chosen, counted, map_of, played, rows, sentence
from fencing.protocol.simulate import strings
from fencing.protocol.simulate.figures import figures_of
from fencing.protocol.simulate.forms import KINDS, trace_form
from fencing.protocol.simulate.strings import Failure, try_all
from fencing.protocol.simulate.traces import Gateway
from tests.dashboard.conftest import SignedIn
from tests.protocol.faults import grant_that_beats_a_divergence

pytestmark = pytest.mark.django_db
Bounded = Callable[[int], AbstractContextManager[Any]]


@pytest.fixture
def traces(tmp_path: Path, settings: Settings) -> Path:
    """An empty folder of failing traces."""
    settings.FENCE_DATA = tmp_path
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


def words(response: HttpResponse | Any) -> str:
    """What a page says, without its tags."""
    inline = re.sub(r"</?(em|code|strong|q|bdi)\b[^>]*>", "", response.content.decode())
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", inline))


def found() -> Failure:
    """Find the shortest string that breaks a property; there has to be a fault."""
    failure = try_all(4, tally=strings.Tally())
    assert failure is not None
    return failure


def test_the_figures_are_those_of_the_protocol(signed_in: SignedIn) -> None:
    page = words(signed_in().get("/simulator"))
    leaky, ours = page[page.index("Leaky gateway") :].split("This gateway", 1)
    for figure in (
        "a call without authority went through 26 / 32",
        "before anything was decided 16 / 32",
        "after a reject 8 / 32",
        "after a wrong veto 2 / 32",
        "P1: commits while two digests are on record 0 / 32",
    ):
        assert figure in leaky
    for figure in (
        "a call without authority was tried 24 / 32",
        "before anything was decided 16 / 32",
        "after a reject 8 / 32",
        "in which it went through 0 / 32",
        "P1: commits while two digests are on record 0 / 32",
        "P1 counted in traces with a live grant, too 0 / 32",
    ):
        assert figure in ours
    assert "Nothing gets past the fence" in page


def test_each_injected_class_is_told_with_the_traces_that_it_moved(signed_in: SignedIn) -> None:
    page = words(signed_in().get("/simulator"))
    for figure in counted().moved:
        assert figure.n > 0
        assert f"{figure.name.replace('_', ' ')} {figure.n} / {figure.of}" in page


def test_a_figure_that_is_wrong_is_the_first_thing_that_the_page_says() -> None:
    told = sentence(figures_of(played()[:31]))
    assert told.tone == "danger"
    assert "must be" in told.text


def test_every_trace_opens_at_its_own_address_with_its_sentence_first(signed_in: SignedIn) -> None:
    client = signed_in()
    for number in range(1, 33):
        response = client.get(f"/simulator/{number}")
        assert response.status_code == 200
        page = response.content.decode()
        assert page.index('class="sentence') < page.index("Leaky gateway") < page.index("Events in order")
        assert page.count('scope="row" class="when"') >= 7


def test_a_leak_after_a_reject_stands_beside_the_refusal(signed_in: SignedIn) -> None:
    page = words(signed_in().get("/simulator/9"))
    assert "Refused here, let through by the leaky gateway" in page
    assert "let through without authority it asks for no token" in page
    assert "refused not committed. The step is rejected: without a commit nothing leaves." in page
    assert "Rejected for divergence: production wants hold_for_review" in page


def test_an_expired_grant_vetoes_in_the_leaky_gateway_alone(signed_in: SignedIn) -> None:
    page = words(signed_in().get("/simulator/4"))
    assert "Committed here, vetoed by the leaky gateway" in page
    assert "rejected vetoed by the expired grant" in page
    assert "Committed by agreement" in page


def test_each_flag_leads_to_the_trace_that_differs_in_it_alone(signed_in: SignedIn) -> None:
    flags = signed_in().get("/simulator/4").context["trace"].flags
    assert [(flag.is_set, flag.twin) for flag in flags] == [(False, 20), (False, 12), (False, 8), (True, 2), (True, 3)]


@pytest.mark.parametrize("number", ["0", "33", "-1", "1.0", "nine", "99999999999999999999", "1%2F2", "٣٣"])
def test_a_number_that_no_trace_has_is_nothing(signed_in: SignedIn, number: str) -> None:
    assert signed_in().get(f"/simulator/{number}").status_code == 404


def test_traces_are_filtered_by_flag_and_by_what_a_gateway_did(signed_in: SignedIn) -> None:
    client = signed_in()

    def numbers(query: str) -> list[int]:
        return [row.number for row in client.get(f"/simulator?{query}").context["rows"]]

    assert numbers("") == list(range(1, 33))
    assert numbers("leaky=veto") == [4, 20]
    assert numbers("leaky=after_reject&reorder=no") == [9, 10, 11, 12]
    assert len(numbers("leaky=any")) == 26
    assert len(numbers("here=none")) == 8
    assert numbers("grant=yes&expired_grant=yes&early_dispatch=no&divergence=no&reorder=yes") == [20]
    assert "No such trace" in words(client.get("/simulator?leaky=veto&grant=no"))


def test_a_filter_that_is_none_leaves_all(signed_in: SignedIn) -> None:
    page = signed_in().get("/simulator?grant=<script>&leaky=everything&here=%00&nonsense=1")
    assert len(page.context["rows"]) == 32
    assert not page.context["is_filtered"]


def test_the_map_has_each_trace_once_where_its_flags_are() -> None:
    lines = list(map_of(played(), Gateway.LEAKY))
    assert [cell.number for _, cells in lines for cell in cells] == list(range(1, 33))
    assert [label for label, _ in lines] == [
        "in order, agree", "in order, differ", "replica first, agree", "replica first, differ",
    ]  # fmt: skip
    for _, cells in lines:
        flags = [played()[cell.number - 1].flags for cell in cells]
        assert [(each.early_dispatch, each.grant, each.expired_grant) for each in flags] == [
            (early, grant, over) for early in (False, True) for grant in (False, True) for over in (False, True)
        ]


def test_the_pages_ask_the_database_for_the_session_the_person_and_freezes_alone(
    signed_in: SignedIn, django_assert_max_num_queries: Bounded
) -> None:
    client = signed_in()
    for path in ("/simulator", "/simulator/9"):
        with django_assert_max_num_queries(4):
            client.get(path)


def test_nothing_is_changed_by_asking(signed_in: SignedIn) -> None:
    client = signed_in()
    for path in ("/simulator", "/simulator/9", "/simulator/failing/I2-0.json"):
        assert client.post(path).status_code == 405


def test_a_stranger_sees_none_of_it(client: Any) -> None:
    for path in ("/simulator", "/simulator/9", "/simulator/failing/I2-0.json"):
        assert client.get(path).status_code in (302, 401)


# ---- failing traces ----


def test_what_the_command_line_wrote_opens_and_fails_again(
    signed_in: SignedIn, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant_that_beats_a_divergence(monkeypatch)
    failure = found()
    (traces / "I1-0123456789ab.json").write_text(json.dumps(failure.as_json()))
    client = signed_in()
    assert "I1-0123456789ab.json" in words(client.get("/simulator"))
    page = words(client.get("/simulator/failing/I1-0123456789ab.json"))
    first = failure.violations[0]
    assert f"{first.property} fails" in page
    assert f"after event {len(failure.happenings)} of {len(failure.happenings)}" in page
    assert first.sentence in page


def test_a_trace_whose_fault_is_gone_says_so(
    signed_in: SignedIn, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        grant_that_beats_a_divergence(planted)
        text = json.dumps(found().as_json())
    (traces / "gone.json").write_text(text)
    assert "fails no more: played again by this version, every property holds" in words(
        signed_in().get("/simulator/failing/gone.json")
    )


def test_text_from_the_file_is_escaped_and_spelt(signed_in: SignedIn, traces: Path) -> None:
    at = "2026-01-01T02:14:01.000000Z"
    event = {"kind": "propose", "step": "a</script>\u202eb", "epoch": 7}
    form = {
        "format": "fence-trace/1", "property": "<b>I2", "sentence": "</script>\u202e" + "long " * 500,
        "seed": True, "events": [{"at": at, "event": event}],
    }  # fmt: skip
    (traces / "ugly.json").write_text(json.dumps(form))
    page = signed_in().get("/simulator/failing/ugly.json").content.decode()
    assert "\u202e" not in page
    assert "<b>I2" not in page
    assert "U+202E" in page


BROKEN = {
    "no JSON": "{",
    "too deep": "[" * 100_000,
    "a list": "[]",
    "another format": json.dumps({"format": "fence-trace/2", "events": []}),
    "an unknown event": json.dumps(
        {"format": "fence-trace/1", "events": [{"at": "2026-01-01", "event": {"kind": "x"}}]}
    ),
    "no time zone": json.dumps(
        {
            "format": "fence-trace/1",
            "events": [{"at": "2026-01-01", "event": {"kind": "propose", "step": "a", "epoch": 7}}],
        }
    ),
    "a number for a name": json.dumps(
        {
            "format": "fence-trace/1",
            "events": [{"at": "2026-01-01T00:00:00Z", "event": {"kind": "propose", "step": 7, "epoch": "x"}}],
        }
    ),
    "too many events": json.dumps({"format": "fence-trace/1", "events": [{}] * 501}),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_trace_is_told_as_such(signed_in: SignedIn, traces: Path, text: str) -> None:
    (traces / "broken.json").write_text(text)
    response = signed_in().get("/simulator/failing/broken.json")
    assert response.status_code == 422
    assert "This file cannot be shown" in words(response)


@pytest.mark.parametrize(
    "name",
    [
        "missing.json", "..", "%2e%2e%2fsecret.json", "..%2Fsecret.json", "%252e%252e%252fsecret.json", ".hidden.json",
        "secret.json%00.json", "sub%2Finner.json", "sub", "link.json", "pipe.json", "large.json", "note.txt", "a" * 300,
    ],
)  # fmt: skip
def test_a_name_opens_a_file_of_that_folder_or_nothing(signed_in: SignedIn, traces: Path, name: str) -> None:
    secret = traces.parent / "secret.json"
    secret.write_text("{}")
    for file in (".hidden.json", "note.txt"):
        (traces / file).write_text("{}")
    (traces / "sub").mkdir()
    (traces / "sub" / "inner.json").write_text("{}")
    (traces / "link.json").symlink_to(secret)
    os.mkfifo(traces / "pipe.json")
    (traces / "large.json").write_text(" " * 1_000_001)
    client = signed_in()
    assert client.get(f"/simulator/failing/{name}").status_code == 404
    listed = [file.name for file in client.get("/simulator").context["stored"]]
    assert listed == ["large.json"]


def test_without_the_folder_there_is_no_failing_trace(signed_in: SignedIn, traces: Path) -> None:
    traces.rmdir()
    assert "No failing trace" in words(signed_in().get("/simulator"))


def test_the_newest_failing_traces_come_first_and_are_few(signed_in: SignedIn, traces: Path) -> None:
    for number in range(60):
        file = traces / f"I2-{number:012}.json"
        file.write_text("{}")
        os.utime(file, (number, number))
    listed = [file.name for file in signed_in().get("/simulator").context["stored"]]
    assert len(listed) == 50
    assert listed[0] == "I2-000000000059.json"


def test_every_kind_of_event_of_random_strings_has_its_words() -> None:
    rng = Random(1)  # noqa: S311 - a seed, no secret
    seen: set[str] = set()
    for _ in range(60):
        happenings = strings.play(strings.random_string(rng, 70), strings.opening()).happenings
        trace = failing_traces.read(json.dumps(trace_form(happenings)))
        seen |= {type(event).__name__ for _, event in happenings}
        assert all(row.what and row.answer.text and row.who for row in trace.rows)
        assert trace.sentence.tone == "good"
    assert len(seen) == len(KINDS)


def test_filters_keep_what_they_say() -> None:
    asked = chosen({"divergence": "yes", "grant": "no"})
    kept = rows(played(), asked)
    assert len(kept) == 8
    assert all(dict(row.flags)["paths differ"] and not dict(row.flags)["grant"] for row in kept)
