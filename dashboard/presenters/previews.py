"""What a grant would let through, as it is shown to who issues it and to who approves it: the same for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dashboard.presenters.json_lines import JsonView, json_view
from dashboard.presenters.numbers import plural
from fencing.protocol import grants
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.explain.wording import Part, Sentence, Tone, code, described, name, parts, strong, times
from fencing.protocol.masking import mask
from fencing.protocol.tools import ToolDefinition
from fencing.queries.preview import Amount, Passed, Passing, Preview

Tools = Mapping[str, ToolDefinition]
MOST_TOLD: Final = 2
MOST_LINES: Final = 25
FORM_FAULTS: Final = frozenset({Code.INVALID_VALUE, Code.NOT_FOUND, Code.REASON_REQUIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLine:
    """A step that a grant is about: what would be done, in short and (masked) in full, and the sum of money."""

    run: str
    step: str
    epoch: int
    what: tuple[Part, ...]
    view: JsonView | None
    digest: str
    amount: str
    at: datetime | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A preview, ready for its template. `sentence` is the scope; `gist` what it means now, in one line."""

    sentence: Sentence | None
    gist: Sentence
    says: str
    refusal: str
    preview: Preview
    passes: tuple[ActionLine, ...]
    waits: tuple[ActionLine, ...]
    past: tuple[ActionLine, ...]
    totals: tuple[str, ...]
    seconds: str


def shown(preview: Preview, sentence: Sentence | None, tools: Tools) -> Shown:
    """Prepare a preview."""
    return Shown(
        sentence=sentence,
        gist=gist_of(preview, tools),
        says=says(preview),
        refusal=preview.refusal.detail if preview.refusal is not None else "",
        preview=preview,
        passes=tuple(_passing(line, tools) for line in preview.passes[:MOST_LINES]),
        waits=tuple(_passing(line, tools) for line in preview.waits[:MOST_LINES]),
        past=tuple(_passed(line, tools) for line in preview.past[:MOST_LINES]),
        totals=tuple(
            f"{money(Amount(member=each.member, value=each.value, currency=each.currency))} in"
            f" {plural(each.count, 'call')} of {each.tool}"
            for each in preview.totals
        ),
        seconds=_seconds(preview),
    )


def gist_of(preview: Preview, tools: Tools) -> Sentence:
    """Say in one line what issuing would do now."""
    if preview.refusal is not None:
        has_scope = preview.wanted is None or bool(preview.wanted.step or preview.wanted.tool)
        is_unfinished = preview.refusal.code in FORM_FAULTS or not has_scope
        words = "Not complete yet" if is_unfinished else "It would not be issued"
        tone = Tone.NEUTRAL if is_unfinished else Tone.REFUSED
        return Sentence(tone=tone, head=parts(strong(words)), rest=parts(preview.refusal.detail))
    within = [line for line in preview.passes if line.within_uses]
    if not within:
        waits = f" {plural(len(preview.waits), 'step')} in scope still waits for the path." if preview.waits else ""
        rest = parts("no step in scope has the path's vote and nothing against it.", waits)
        return Sentence(tone=Tone.NEUTRAL, head=parts("Now it would let ", strong("nothing"), " through"), rest=rest)
    told = [_action_parts(line, tools) for line in within[:MOST_TOLD]]
    more = f" and {len(within) - MOST_TOLD} more" if len(within) > MOST_TOLD else ""
    left_out = len(preview.passes) - len(within)
    beyond = f" {plural(left_out, 'other step')} would find no use left." if left_out else ""
    head = parts("Now it would let ", strong(plural(len(within), "step")), " through")
    return Sentence(tone=Tone.WAITING, head=head, rest=parts(*_joined(told), more, ".", beyond))


def says(preview: Preview) -> str:
    """Say on the button what will happen."""
    wanted = preview.wanted
    if wanted is None:
        return "Issue the grant"
    return f"Ask a second person: {lets(wanted)}" if preview.needs_second else f"Issue: {lets(wanted)}"


def lets(wanted: grants.Grant) -> str:
    """Say in plain words what a grant lets act: for a button."""
    what = wanted.tool or (f"step {_short(wanted.step)}" if wanted.step else "it")
    return f"let {_short(wanted.path)} alone commit {_short(what)} {times(wanted.max_uses)}"


def own_words(line: grants.Grant) -> tuple[Part, ...]:
    """Say the scope of a grant in a row of a list: who acts alone, on what, in which epoch."""
    what = parts(code(line.tool)) if line.tool else parts("whatever it asks for")
    step = parts(" on step ", name(line.step)) if line.step else ()
    pinned = ", one exact digest" if line.digest else ""
    return parts(name(line.path), " alone: ", what, step, f", epoch {line.epoch}", pinned)


def money(amount: Amount | None) -> str:
    """Write an amount as the action has it: its member, its value, its currency where it names one."""
    if amount is None:
        return ""
    return f"{amount.member} {amount.value:,}" + (f" {amount.currency}" if amount.currency else "")


def why_refused(refusal: Refusal | None) -> str:
    """Give a refusal's sentence; empty where there is none."""
    return "" if refusal is None else refusal.detail


def _passing(line: Passing, tools: Tools) -> ActionLine:
    return ActionLine(
        run=line.step.run,
        step=line.step.step,
        epoch=line.step.epoch,
        what=_action_parts(line, tools),
        view=_view(line.action, tools),
        digest=line.digest,
        amount=money(line.amount),
        at=line.deadline_at,
        note="" if line.within_uses else "no use would be left for it",
    )


def _passed(line: Passed, tools: Tools) -> ActionLine:
    return ActionLine(
        run=line.step.run,
        step=line.step.step,
        epoch=line.step.epoch,
        what=_action_parts(line, tools),
        view=_view(line.action, tools),
        digest=line.digest,
        amount=money(line.amount),
        at=line.at,
        note=line.instead.replace("_", " "),
    )


def _action_parts(line: Passing | Passed, tools: Tools) -> tuple[Part, ...]:
    if line.action is None:
        digest = f", by digest {line.digest.removeprefix('sha256:')[:12]}… alone" if line.digest else ""
        return parts(code(line.tool) if line.tool else "nobody named a tool", digest)
    return described(line.action, tools.get)


def _view(action: Any, tools: Tools) -> JsonView | None:
    if action is None:
        return None
    definition = tools.get(str(action["tool"]))
    return json_view(action if definition is None else mask(action, definition.sensitive))


def _seconds(preview: Preview) -> str:
    if not preview.needs_second:
        return ""
    if not preview.seconds:
        return "Nobody else is on call: nobody could approve it."
    return f"{plural(len(preview.seconds), 'person', 'people')} may approve it."


def _joined(told: Sequence[tuple[Part, ...]]) -> list[Part | str | tuple[Part, ...]]:
    joined: list[Part | str | tuple[Part, ...]] = []
    for index, each in enumerate(told):
        joined += ["; " if index else "", each]
    return joined


def _short(text: str | None) -> str:
    told = text or ""
    return told if len(told) <= 32 else f"{told[:20]}…{told[-8:]}"  # noqa: PLR2004 - a button has room for so much
