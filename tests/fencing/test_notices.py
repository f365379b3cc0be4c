"""Notices: raised once, told to the groups in turn, gathered, held back at night, retried, over with the matter."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.db.models import F
from hypothesis import given
from hypothesis import strategies as st

from fencing.jobs.notify import look
from fencing.models import Notice, NoticeItem, QuietHours, Sighting, Target, Telling, TellingTry
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.groups import Group
from fencing.protocol.notices import PLANS, Kind, Quiet, pause_s, quiet_until, sentence_of, told_at
from fencing.queries.noticing import unreachable
from fencing.services.notices import has_due, raise_notice, see, send_test, settle_notice, spread_due
from fencing.services.sending import Address, lock_address, read_address
from fencing.services.telling import tell_due
from tests.factories import (
    make_compensation,
    make_effect,
    make_incident,
    make_rejected_step,
    make_run,
    make_tool_change,
    soon,
)
from tests.receivers import WebServer, nobody, serving
from tests.stories import Story

pytestmark = pytest.mark.django_db
POOL = ThreadPoolExecutor(4)
FACTS = {"run": "run-88", "step": "pay"}


def person(name: str, *groups: Group) -> User:
    user = User.objects.create_user(name, password="correct horse battery")
    user.groups.set([GroupRow.objects.get_or_create(name=group)[0] for group in groups])
    return user


def caller(user: User) -> Caller:
    return Caller(credential_id=None, name=user.username, role=Role.PERSON, person_id=user.pk, person=user.username)


def target(user: User, port: int, *kinds: Kind, name: str = "chat", path: str = "") -> Target:
    found = read_address(f"json://127.0.0.1:{port}/{path or user.username}")
    assert isinstance(found, Address)
    return Target.objects.create(
        person=user, name=name, service=found.service, locked=lock_address(found), kinds=[kind.value for kind in kinds]
    )


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving(WebServer()) as server:
        yield server


def pass_time(**span: float) -> None:
    """Let time go by for everything that waits."""
    by = timedelta(**span)
    Notice.objects.filter(due_at__isnull=False).update(due_at=F("due_at") - by)
    Telling.objects.filter(due_at__isnull=False).update(due_at=F("due_at") - by)
    Target.objects.filter(paused_until__isnull=False).update(paused_until=F("paused_until") - by)


def run() -> None:
    """Do what the job does, once."""
    spread_due()
    tell_due(POOL)


def told(server: WebServer) -> list[tuple[str, str]]:
    return [(path.strip("/"), body["title"]) for path, body in server.calls]


def shown_to(kind: Kind) -> set[str]:
    rows = Telling.objects.filter(notice__kind=kind, target__isnull=True)
    return set(rows.values_list("person__username", flat=True))


# ---- who, where, once ----


def test_a_notice_goes_to_the_people_of_its_group_at_each_of_their_targets_once(web: WebServer) -> None:
    lena, mats = person("lena", Group.ONCALL), person("mats", Group.ONCALL, Group.REVIEWER)
    person("vera", Group.VIEWER)
    target(lena, web.port)
    target(lena, web.port, name="second", path="lena-2")
    target(mats, web.port, Kind.DOUBT, name="doubts alone")
    for _ in range(3):
        raise_notice(Kind.SILENT_PATH, "replica", facts={"path": "replica", "steps": "4"})
        run()
    assert sorted(told(web)) == [("lena", "Fence: Silent path replica"), ("lena-2", "Fence: Silent path replica")]
    assert shown_to(Kind.SILENT_PATH) == {"lena", "mats"}
    message = web.calls[0][1]["message"]
    assert "4 steps wait for it" in message
    assert message.endswith(f"/notices/{Notice.objects.get().pk}/open")


def test_what_is_over_is_not_sent_and_may_be_raised_anew(web: WebServer) -> None:
    target(person("lena", Group.ONCALL), web.port)
    raise_notice(Kind.SILENT_PATH, "replica")
    spread_due()
    settle_notice(Kind.SILENT_PATH, "replica")
    tell_due(POOL)
    assert told(web) == []
    assert list(Telling.objects.exclude(target=None).values_list("state", flat=True)) == ["withdrawn"]
    assert not has_due()
    raise_notice(Kind.SILENT_PATH, "replica")
    run()
    assert len(told(web)) == 1


def test_who_is_deactivated_or_has_left_the_group_is_not_told() -> None:
    gone = person("gone", Group.ONCALL)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    person("lena", Group.ONCALL)
    raise_notice(Kind.SILENT_PATH, "replica")
    spread_due()
    assert shown_to(Kind.SILENT_PATH) == {"lena"}


# ---- escalation ----


def test_what_nobody_has_seen_goes_to_the_next_group_after_its_time() -> None:
    lena, admin = person("lena", Group.ONCALL), person("ada", Group.ADMINISTRATOR)
    raise_notice(Kind.PENDING_APPROVAL, "grant g", facts={"what": "grant", "name": "g"})
    spread_due()
    assert shown_to(Kind.PENDING_APPROVAL) == {"lena"}
    pass_time(seconds=PLANS[Kind.PENDING_APPROVAL].unseen_s - 2)
    assert spread_due() == 0
    pass_time(seconds=3)
    assert spread_due() == 1
    assert shown_to(Kind.PENDING_APPROVAL) == {"lena", "ada"}
    pass_time(hours=5)
    assert spread_due() == 0, "there is no further group"
    assert [lena.pk, admin.pk] == list(Telling.objects.order_by("level").values_list("person_id", flat=True))


def test_what_somebody_asked_has_seen_goes_to_nobody_else() -> None:
    lena = person("lena", Group.ONCALL)
    person("ada", Group.ADMINISTRATOR)
    raise_notice(Kind.PENDING_APPROVAL, "grant g")
    spread_due()
    assert see(Notice.objects.get(), caller(lena))
    assert not see(Notice.objects.get(), caller(lena)), "once is enough"
    pass_time(hours=1)
    assert spread_due() == 0
    assert shown_to(Kind.PENDING_APPROVAL) == {"lena"}
    assert Sighting.objects.get().person == lena


def test_a_look_by_somebody_who_was_not_asked_stops_nothing() -> None:
    person("lena", Group.ONCALL)
    vera = person("vera", Group.VIEWER)
    person("ada", Group.ADMINISTRATOR)
    raise_notice(Kind.PENDING_APPROVAL, "grant g")
    spread_due()
    assert not see(Notice.objects.get(), caller(vera))
    assert not Sighting.objects.exists()
    pass_time(hours=1)
    assert spread_due() == 1


def test_a_group_with_nobody_in_it_is_passed_over_at_once() -> None:
    person("ada", Group.ADMINISTRATOR)
    raise_notice(Kind.DOUBT, "intent")  # reviewers, then on-call, then administrators
    spread_due()
    assert shown_to(Kind.DOUBT) == {"ada"}


# ---- gathered ----


def test_many_divergences_are_one_message_and_each_is_told_once(web: WebServer) -> None:
    target(person("rita", Group.REVIEWER), web.port)
    for number in range(40):
        raise_notice(Kind.DIVERGENCE, f"run/s{number}/1", page=f"step run s{number}", facts=FACTS)
    run()
    assert told(web) == [], "it gathers for a minute"
    pass_time(seconds=61)
    run()
    assert told(web) == [("rita", "Fence: 40 steps diverged")]
    for number in range(41):
        raise_notice(Kind.DIVERGENCE, f"run/s{number}/1", facts=FACTS)
    pass_time(seconds=61)
    run()
    assert len(told(web)) == 1, "the next one waits for a quarter of an hour"
    pass_time(minutes=15)
    run()
    assert [title for _, title in told(web)][1:] == ["Fence: A step diverged"]
    assert NoticeItem.objects.count() == 41


# ---- targets that fail ----


def test_a_target_that_is_down_delays_nobody_and_is_tried_again_later(web: WebServer) -> None:
    lena, mats = person("lena", Group.ONCALL), person("mats", Group.ONCALL)
    down = target(lena, nobody())
    target(mats, web.port)
    raise_notice(Kind.SILENT_PATH, "replica")
    run()
    assert [path for path, _ in told(web)] == ["mats"]
    down.refresh_from_db()
    assert (down.failures, down.sent_at) == (1, None)
    assert down.paused_until is not None
    assert "onnection" in down.error
    run()
    assert TellingTry.objects.filter(is_sent=False).count() == 1, "it is left alone for a while"
    raise_notice(Kind.SILENT_PATH, "production")
    run()
    assert [path for path, _ in told(web)] == ["mats", "mats"]
    assert TellingTry.objects.filter(is_sent=False).count() == 1
    pass_time(minutes=1)
    run()
    down.refresh_from_db()
    assert down.failures == 2


class Hanging(WebServer):
    """Takes a call and answers only once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_let_go = threading.Event()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self.is_let_go.wait(20)
        super().process_request_thread(request, client_address)


def test_a_target_that_hangs_delays_nothing_that_comes_meanwhile(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencing.services.telling.LOOK_S", 0.02)
    with serving(Hanging()) as hanging:
        target(person("lena", Group.ONCALL), hanging.port)
        target(person("mats", Group.ONCALL), web.port)
        raised = iter(["replica", "production", "third"])
        unsettled = []

        def meanwhile() -> None:
            if (path := next(raised, None)) is not None:
                raise_notice(Kind.SILENT_PATH, path)
            elif len(web.calls) == 3:
                # All three arrived, and the first try of the other place is still on its way.
                unsettled.append(TellingTry.objects.filter(telling__person__username="lena").count())
                hanging.is_let_go.set()
            spread_due()

        tell_due(POOL, meanwhile=meanwhile)
    assert unsettled
    assert unsettled[0] == 0
    assert [path for path, _ in told(web)] == ["mats"] * 3
    assert len(hanging.calls) == 3, "and then it gets each of them, one after the other"


def test_a_try_that_does_not_end_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencing.services.telling.LOOK_S", 0.02)
    monkeypatch.setattr("fencing.services.telling.TRY_S", 0.1)
    with serving(Hanging()) as hanging:
        place = target(person("lena", Group.ONCALL), hanging.port)
        raise_notice(Kind.SILENT_PATH, "replica")
        spread_due()
        assert tell_due(POOL) == 1
        hanging.is_let_go.set()
    place.refresh_from_db()
    assert (place.failures, place.error) == (1, "It did not end in time.")


def test_a_target_that_comes_back_gets_what_waited() -> None:
    with serving(WebServer(status=503)) as server:
        place = target(person("lena", Group.ONCALL), server.port)
        raise_notice(Kind.SILENT_PATH, "replica")
        run()
        server.status = 200
        pass_time(minutes=1)
        run()
    place.refresh_from_db()
    assert (place.failures, place.error, place.paused_until) == (0, "", None)
    telling = Telling.objects.get(target=place)
    assert (telling.state, telling.tries, telling.due_at) == ("sent", 2, None)
    tries = TellingTry.objects.order_by("number").values_list("number", "is_sent")
    assert list(tries) == [(1, False), (2, True)]


def test_after_ten_tries_a_telling_is_given_up_and_stays_on_record() -> None:
    place = target(person("lena", Group.ONCALL), nobody())
    raise_notice(Kind.SILENT_PATH, "replica")
    spread_due()
    Telling.objects.filter(target=place).update(tries=9)
    tell_due(POOL)
    telling = Telling.objects.get(target=place)
    assert (telling.state, telling.due_at) == ("failed", None)
    assert not has_due()


def test_a_target_that_was_ended_gets_nothing_more(web: WebServer) -> None:
    place = target(person("lena", Group.ONCALL), web.port)
    raise_notice(Kind.SILENT_PATH, "replica")
    spread_due()
    Target.objects.filter(pk=place.pk).update(ended_at=read_clock(), locked="")
    tell_due(POOL)
    assert told(web) == []
    assert Telling.objects.get(target=place).state == "withdrawn"


def test_a_worker_that_dies_in_a_try_leaves_it_to_the_next(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    target(person("lena", Group.ONCALL), web.port)
    raise_notice(Kind.SILENT_PATH, "replica")
    spread_due()

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("fencing.services.telling._settle", die)
        with pytest.raises(Killed):
            tell_due(POOL)
    assert tell_due(POOL) == 0, "its lease is not over"
    pass_time(seconds=61)
    assert tell_due(POOL) == 1
    assert Telling.objects.exclude(target=None).get().state == "sent"


def test_a_test_goes_the_way_of_everything_else(web: WebServer) -> None:
    lena = person("lena", Group.VIEWER)
    send_test(target(lena, web.port).pk, lena.pk)
    run()
    assert told(web) == [("lena", "Fence: A test")]


# ---- quiet hours ----


@pytest.mark.parametrize(
    ("begin", "end", "now", "until"),
    [
        ("22:00", "07:00", "2026-11-30T23:30", "2026-12-01T07:00"),
        ("22:00", "07:00", "2026-11-30T06:59", "2026-11-30T07:00"),
        ("22:00", "07:00", "2026-11-30T07:00", None),
        ("22:00", "07:00", "2026-11-30T21:59", None),
        ("09:00", "17:00", "2026-11-30T09:00", "2026-11-30T17:00"),
        ("09:00", "09:00", "2026-11-30T09:00", None),
        # The night in which the clocks go back has an hour more.
        ("22:00", "07:00", "2026-10-24T23:00", "2026-10-25T07:00"),
    ],
)
def test_quiet_hours_are_those_of_the_persons_own_clock(begin: str, end: str, now: str, until: str | None) -> None:
    zone = ZoneInfo("Europe/Berlin")
    quiet = Quiet(zone=zone, begin=time.fromisoformat(begin), end=time.fromisoformat(end))
    at = datetime.fromisoformat(now).replace(tzinfo=zone).astimezone(UTC)
    found = quiet_until(quiet, at)
    assert (found and found.astimezone(zone).strftime("%Y-%m-%dT%H:%M")) == until


@given(
    begin=st.times(), end=st.times(), zone=st.timezones(),
    now=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)  # fmt: skip
def test_nobody_is_held_back_for_more_than_a_day_or_told_before_now(
    begin: time, end: time, zone: Any, now: datetime
) -> None:
    quiet = Quiet(zone=zone, begin=begin, end=end)
    at = told_at(Kind.DIVERGENCE, quiet, now)
    assert now <= at <= now + timedelta(hours=26)
    assert told_at(Kind.LANDED_ESCAPE, quiet, now) == now


def test_what_is_not_urgent_waits_for_the_morning_and_what_is_does_not(web: WebServer) -> None:
    rita = person("rita", Group.REVIEWER)
    target(rita, web.port)
    now = datetime.now(UTC)
    begin, end = (now - timedelta(hours=1)).time(), (now + timedelta(hours=1)).time()
    QuietHours.objects.create(person=rita, zone="UTC", begin=begin, end=end)
    raise_notice(Kind.OVERDUE_REVIEW, "g")
    raise_notice(Kind.DOUBT, "i")
    run()
    assert told(web) == [("rita", "Fence: Effect in doubt")]
    pass_time(hours=1.1)
    run()
    assert ("rita", "Fence: Review overdue") in told(web)


# ---- what is found in the facts ----


def open_ones() -> set[tuple[str, str]]:
    look()
    return set(Notice.objects.filter(over_at__isnull=True).values_list("kind", "subject"))


def kinds_open() -> set[str]:
    return {kind for kind, _ in open_ones()}


def test_incidents_are_noticed_and_are_over_when_they_are_resolved() -> None:
    run_ = make_run()
    incident = make_incident(run=run_)
    escape = make_incident(kind="landed_escape")
    assert open_ones() == {("late_divergence", str(incident.pk)), ("landed_escape", str(escape.pk))}
    assert Notice.objects.get(kind="landed_escape").page == f"incident {escape.pk}"
    incident.state, incident.resolution, incident.resolved_at = "resolved", "seen", soon()
    incident.resolved_by = person("rita", Group.REVIEWER)
    incident.save()
    assert open_ones() == {("landed_escape", str(escape.pk))}


def test_divergences_of_the_last_minutes_are_gathered() -> None:
    make_rejected_step(run=make_run())
    look()
    look()
    assert Notice.objects.get().count == 1
    assert NoticeItem.objects.count() == 1


def test_a_pending_grant_asks_and_one_that_nobody_may_approve_alarms() -> None:
    story = Story.begin()
    issuer = User.objects.get(pk=story.oncall.person_id or 0)
    issuer.groups.set([GroupRow.objects.get_or_create(name=Group.ONCALL)[0]])
    assert story.grant(name="night-shift", tool="wire")["status"] == 201
    assert open_ones() == {("pending_approval", "grant night-shift"), ("no_approver", "grant night-shift")}
    asked = Notice.objects.get(kind="pending_approval")
    assert (asked.asked_by, asked.page) == (issuer.username, "grant night-shift")
    person("mats", Group.ONCALL)
    assert open_ones() == {("pending_approval", "grant night-shift")}, "who came on call may approve it"


def test_a_change_of_a_tool_asks_and_alarms_where_there_is_no_second_administrator() -> None:
    change = make_tool_change()
    assert open_ones() == {("pending_change", f"change {change.pk}"), ("no_approver", f"change {change.pk}")}
    person("ada", Group.ADMINISTRATOR)
    assert open_ones() == {("pending_change", f"change {change.pk}")}
    spread_due()
    assert shown_to(Kind.PENDING_CHANGE) == {"ada"}, "who could not approve it is not asked"


def test_a_compensation_asks_reviewers_and_alarms_where_there_is_none() -> None:
    row = make_compensation(effect=make_effect())
    subject = f"compensation {row.pk}"
    assert open_ones() == {("pending_compensation", subject), ("no_approver", subject)}
    person("rita", Group.REVIEWER)
    person("omar", Group.ONCALL)
    assert open_ones() == {("pending_compensation", subject)}
    spread_due()
    assert shown_to(Kind.PENDING_COMPENSATION) == {"rita"}


def test_groups_that_nobody_could_reach_are_named(web: WebServer) -> None:
    target(person("lena", Group.ONCALL), web.port)
    assert set(unreachable()) == {Group.REVIEWER, Group.ADMINISTRATOR, Group.AUDITOR}


# ---- sentences, pauses ----


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("facts", [{}, FACTS | {"tool": "refund", "path": "replica", "lane": "l", "lag": "3 min"}])
def test_each_kind_says_what_it_is_with_and_without_its_facts(kind: Kind, facts: dict[str, str]) -> None:
    text = sentence_of(kind, facts, 3).text
    assert text.endswith(".")
    assert "  " not in text
    assert " ." not in text
    assert ",." not in text


@given(st.integers(0, 10_000))
def test_a_pause_grows_and_has_an_end(failures: int) -> None:
    assert 15 <= pause_s(failures) <= pause_s(failures + 1) <= 1800


def test_what_deceives_is_spelt_in_a_message() -> None:
    text = sentence_of(Kind.PENDING_APPROVAL, {"what": "grant", "name": "g\u202eevil\n\nhttp://x"}).text
    assert "\u202e" not in text
    assert "\n" not in text
