"""One step: who authorised it, what each path asked for, and what a reviewer can do about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, open_to, reader_of, why_not
from dashboard.confirming import confirmed_recently
from dashboard.freezing import freeze_act, scopes
from dashboard.pages import Page, answer
from dashboard.presenters import sides, step_times, steps
from dashboard.presenters.acts import Act, Change
from dashboard.views.evidence import RevealForm, evidence_url
from fencing.models import Verdict
from fencing.protocol import fence, intake
from fencing.protocol.callers import Role
from fencing.protocol.epochs import step_epoch
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.explain import explain_step
from fencing.queries.trace import Trace, read_trace, story_of
from fencing.services.requests import ReplayStep
from fencing.services.revealing import reveal
from fencing.services.steps import replay_step as replay
from fencing.services.verdicts import GiveVerdict
from fencing.services.verdicts import give_verdict as give

LONGEST_NAME: Final = 32
MAX_TEXT: Final = 4000
NOBODY: Final = "no verdict"
PARTS: Final = {"state": "dashboard/step/state.html", "facts": "dashboard/step/facts.html"}


class ReplayForm(forms.Form):
    """Why a step is replayed."""

    reason = forms.CharField(
        label="Reason",
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="In your own words; it stands in the audit.",
        error_messages={"required": "Say why: the reason stands in the audit."},
    )


class VerdictForm(forms.Form):
    """Who was right."""

    verdict = forms.ChoiceField(
        label="Who was right?",
        choices=[("", "choose…"), *Verdict.Choice.choices],
        error_messages={"required": "Choose who was right."},
    )
    note = forms.CharField(
        label="Note", max_length=MAX_TEXT, required=False, widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What the next reviewer should know.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Forms as they are shown again after they were sent: what was typed, and what changed meanwhile."""

    replay: forms.Form | None = None
    verdict: forms.Form | None = None
    reveal: forms.Form | None = None
    is_reveal_open: bool = False
    is_revealed: bool = False
    changes: tuple[Change, ...] = field(default=())
    status: int = 200


FRESH: Final = Shown()


@open_to(ANY_GROUP)
@require_safe
def step(request: HttpRequest, run: str, step: str) -> HttpResponse:
    """Show the divergence trace of a step, of its newest epoch where none is named."""
    reader_of(request)
    return _answer(request, _trace(run, step, request.GET.get("epoch", "")))


@open_to(Group.REVIEWER)
@require_POST
def replay_step(request: HttpRequest, run: str, step: str) -> HttpResponse:
    """Replay a step into a fresh epoch, from the epoch that the person saw."""
    caller = caller_of(request, Role.REVIEWER)
    seen = _number(request.POST.get("from_epoch", ""))
    form = ReplayForm(request.POST)
    if not form.is_valid() or seen is None:
        return _answer(request, _trace(run, step, str(seen or "")), Shown(replay=form, status=422))
    wanted = ReplayStep(run=run, step=step, from_epoch=seen, reason=form.cleaned_data["reason"])
    result = replay(wanted, caller)
    if isinstance(result, Refusal):
        return _refused_replay(request, _trace(run, step, ""), result, form)
    epoch = result.body["epoch"]
    if result.body.get("duplicate"):
        messages.info(request, f"It was replayed already, or committed meanwhile: this is epoch {epoch}.")
    else:
        messages.success(request, f"Replayed into epoch {epoch}. Its planner is told, and both paths are asked anew.")
    return _done(run, step, int(str(epoch)))


@open_to(Group.REVIEWER)
@require_POST
def give_verdict(request: HttpRequest, run: str, step: str) -> HttpResponse:
    """Write down who was right, having seen the newest verdict or none."""
    caller = caller_of(request, Role.REVIEWER)
    epoch, form = request.POST.get("epoch", ""), VerdictForm(request.POST)
    trace = _trace(run, step, epoch)
    if not form.is_valid():
        return _answer(request, trace, Shown(verdict=form, status=422))
    choice = Verdict.Choice(form.cleaned_data["verdict"])
    seen = request.POST.get("seen") or None
    wanted = GiveVerdict(
        run=run, step=step, epoch=trace.step.epoch, verdict=choice, note=form.cleaned_data["note"], seen=seen
    )
    result = give(wanted, caller)
    if isinstance(result, Refusal):
        changes = _verdict_changes(_trace(run, step, epoch), seen) if result.code is Code.CHANGED else ()
        return _refused(request, _trace(run, step, epoch), result, Shown(verdict=form, changes=changes, status=409))
    messages.success(request, f"Stored: {choice.label}.")
    return _done(run, step, trace.step.epoch)


def _show_revealing(request: HttpRequest, typed: QueryDict, run: str, step: str) -> HttpResponse:
    form = RevealForm(initial={"reason": typed.get("reason", "")})
    return _answer(request, _trace(run, step, typed.get("epoch", "")), Shown(reveal=form, is_reveal_open=True))


@open_to(Group.REVIEWER)
@confirmed_recently("reveal sensitive members", show=_show_revealing)
@require_POST
def reveal_step(request: HttpRequest, run: str, step: str) -> HttpResponse:
    """Show a step with its sensitive members, once that stands in the audit (U5). The next look masks them again."""
    caller = caller_of(request, Role.REVIEWER)
    trace, form = _trace(run, step, request.POST.get("epoch", "")), RevealForm(request.POST)
    if not form.is_valid():
        return _answer(request, trace, Shown(reveal=form, is_reveal_open=True, status=422))
    refusal = reveal("step", f"{run}/{step}/{trace.step.epoch}", form.cleaned_data["reason"], caller)
    if isinstance(refusal, Refusal):
        form.add_error("reason", refusal.detail)
        return _answer(request, trace, Shown(reveal=form, is_reveal_open=True, status=422))
    response = _answer(request, trace, Shown(is_revealed=True))
    response["Cache-Control"] = "no-store"
    return response


def step_url(run: str, step: str, epoch: int | None = None) -> str:
    """Give the address of a step's page."""
    path = reverse("dashboard:step", args=[run, step])
    return path if epoch is None else f"{path}?{urlencode({'epoch': epoch})}"


def _done(run: str, step: str, epoch: int) -> HttpResponse:
    """Go back to the page, to its top: a browser would keep the place of the form that was sent."""
    return redirect(f"{step_url(run, step, epoch)}#main")


def _trace(run: str, step: str, epoch: str) -> Trace:
    number = _number(epoch)
    trace = None if epoch and number is None else read_trace(run, step, number)
    if trace is None:
        raise Http404(f"There is no step {step} in run {run}" + (f" at epoch {epoch}." if epoch else "."))
    return trace


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 16  # noqa: PLR2004 - 2**53 has sixteen digits
    return int(text) if is_number else None


def _answer(request: HttpRequest, trace: Trace, shown: Shown = FRESH) -> HttpResponse:
    name, epoch = trace.step.name, trace.step.epoch
    # Functions, so that a part pays for what it shows; once each, since a template calls them at every mention.
    context = {
        "trace": trace,
        "run": trace.step.run.name,
        "step": name,
        "epoch": epoch,
        "phase": trace.step.phase.value,
        "reason": trace.step.row["reason"],
        "sentence": cache(lambda: explain_step(story_of(trace))),
        "comparison": cache(
            lambda: sides.compare(trace, _number(request.GET.get("against", "")), reveals=shown.is_revealed)
        ),
        "is_revealed": shown.is_revealed,
        "evidence_url": evidence_url(request, "step", f"{trace.step.run.name}/{trace.step.name}/{trace.step.epoch}"),
        "figure": cache(lambda: step_times.figure_of(trace)),
        "rule": fence.I1,
        "rules": trace.step.rules(),
        "votes": cache(lambda: steps.votes_of(trace)),
        "late": [vote for vote in trace.votes if vote.is_late],
        "grants": cache(lambda: steps.grants_of(trace)),
        "claims": cache(lambda: steps.claims_of(trace)),
        "token_fault": cache(lambda: steps.token_fault(trace)),
        "commit": trace.step.commit,
        "intent": _intent(trace),
        "deliveries": cache(lambda: steps.deliveries_of(trace)),
        "acts": cache(lambda: _acts(request, trace, shown)),
        "freeze": cache(lambda: _freeze(request, trace)),
        "grant_url": _grant_url(trace),
        "newest_verdict": trace.verdicts[0] if trace.verdicts else None,
        # A page that answers a form has no address of its own that its live parts could be read from.
        "is_live": request.method != "POST" and not steps.is_settled(trace),
    }
    title = f"{name} · epoch {epoch}"
    page = Page(title=title, place="runs", parts=PARTS)
    return answer(request, "dashboard/step.html", page, context, status=shown.status)


def _intent(trace: Trace) -> dict[str, object] | None:
    found = trace.facts.intents.get(trace.step.commit.intent_id) if trace.step.commit else None
    return None if found is None else {"id": found.id, **found.row}


def _acts(request: HttpRequest, trace: Trace, shown: Shown) -> list[Act]:
    found = [_replay_act(request, trace, shown)]
    if fence.divergence(trace.step.pure()) is not None:
        found.append(_verdict_act(request, trace, shown))
    if not shown.is_revealed and sides.has_masked(trace):
        found.append(_reveal_act(request, trace, shown))
    return found


def _reveal_act(request: HttpRequest, trace: Trace, shown: Shown) -> Act:
    return Act(
        id="reveal",
        opens="Reveal…",
        says="Show sensitive members once",
        url=reverse("dashboard:reveal_step", args=[trace.step.run.name, trace.step.name]) + "#main",
        seen={"epoch": str(trace.step.epoch)},
        form=shown.reveal or RevealForm(),
        explains="Its tool calls some members sensitive. Your name and reason go into the audit before they are shown.",
        why_not=why_not(request.user, Role.REVIEWER),
        is_open=shown.is_reveal_open,
        must_confirm=True,
    )


def _freeze(request: HttpRequest, trace: Trace) -> Act:
    tool = fence.tool_of(trace.step.pure()) or ""
    return freeze_act(request.user, scopes(tool=tool, run=trace.step.run.name))


def _grant_url(trace: Trace) -> str:
    """Give the address of the form that would let this very step through; empty where no grant could help it."""
    step = trace.step.pure()
    if step.phase is not fence.Phase.PROPOSED or fence.divergence(step) is not None:
        return ""
    rules, voted, seen = trace.step.rules(), fence.paths_for(step), fence.digests_on_record(step)
    scope = {"run": trace.step.run.name, "step": step.step, "epoch": str(step.epoch), "tool": fence.tool_of(step) or ""}
    if voted and rules.trusted_path not in voted:  # a witness alone: it needs the digest that it may commit (G1)
        scope |= {"path": min(voted), "digest": min(seen)}
    return f"{reverse('dashboard:new_grant')}?{urlencode({name: text for name, text in scope.items() if text})}"


def _replay_act(request: HttpRequest, trace: Trace, shown: Shown) -> Act:
    name, epoch = trace.step.name, trace.step.epoch
    following = trace.facts.runs[trace.step.run.name].counter + 1
    return Act(
        id="replay",
        opens="Replay…",
        says=f"Replay {_short(name)} into a fresh epoch",
        url=reverse("dashboard:replay_step", args=[trace.step.run.name, name]) + "#replay",
        seen={"from_epoch": str(epoch)},
        form=shown.replay or ReplayForm(),
        explains=(
            f"Epoch {epoch} stays as it is. The step gets the next number, {following} as of now: its planner proposes "
            "it again and each path is asked anew. No vote is carried over, and grants for this step end."
        ),
        why_not=_why_not_replayed(trace) or why_not(request.user, Role.REVIEWER),
        changes=shown.changes if shown.replay is not None else (),
    )


def _why_not_replayed(trace: Trace) -> str:
    """Say why the step cannot be replayed from this epoch, in the words that the service would refuse with."""
    opened = next((each for each in trace.openings if each.from_epoch == trace.step.epoch), None)
    if opened is not None:
        return f"It was replayed into epoch {opened.number} already."
    run, known = trace.step.run, trace.facts.as_known(trace.step)
    if known.content is None:  # a replay opened it: the step was proposed before, which only an older epoch knows
        known = replace(known, content="")
    if known.has_standing_commit:
        return "The step is committed: there is nothing to replay."
    own = step_epoch(run.epochs, (line.epoch for line in trace.epochs))
    verdict = intake.judge_replay([known], from_epoch=trace.step.epoch, own=own, earlier=None)
    return verdict.detail if isinstance(verdict, Refusal) else ""


def _verdict_act(request: HttpRequest, trace: Trace, shown: Shown) -> Act:
    newest = trace.verdicts[0] if trace.verdicts else None
    return Act(
        id="verdict",
        opens="Give a verdict…",
        says=f"Store the verdict on {_short(trace.step.name)}, epoch {trace.step.epoch}",
        url=reverse("dashboard:give_verdict", args=[trace.step.run.name, trace.step.name]) + "#verdict",
        seen={"epoch": str(trace.step.epoch), "seen": str(newest.id) if newest else ""},
        form=shown.verdict or VerdictForm(),
        explains="A verdict decides nothing: it is kept with your name, for the people who read divergences.",
        why_not=why_not(request.user, Role.REVIEWER),
        changes=shown.changes if shown.verdict is not None else (),
    )


def _refused_replay(request: HttpRequest, trace: Trace, refusal: Refusal, form: forms.Form) -> HttpResponse:
    """Show the newest epoch beside the one that the person decided on."""
    line = trace.epochs[0]
    seen = request.POST.get("from_epoch", "")
    was = next((each for each in trace.epochs if str(each.epoch) == seen), None)
    changes = (
        Change(what="newest epoch", seen=seen, now=str(line.epoch)),
        Change(what="its phase", seen=was.phase if was else "not there", now=line.phase),
    )
    return _refused(request, trace, refusal, Shown(replay=form, changes=changes, status=409))


def _refused(request: HttpRequest, trace: Trace, refusal: Refusal, shown: Shown) -> HttpResponse:
    messages.error(request, f"Nothing was done. {refusal.detail}")
    return _answer(request, trace, shown)


def _verdict_changes(trace: Trace, seen: str | None) -> tuple[Change, ...]:
    before = next((each for each in trace.verdicts if str(each.id) == seen), None)
    newest = trace.verdicts[0]
    told = [NOBODY if each is None else f"{each.get_verdict_display()} ({each.person})" for each in (before, newest)]
    notes = ["" if each is None else each.note for each in (before, newest)]
    return (
        Change(what="verdict", seen=told[0], now=told[1]),
        *((Change(what="note", seen=notes[0], now=notes[1]),) if any(notes) else ()),
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:20]}…{name[-8:]}"
