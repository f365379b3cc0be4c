"""What a person fills in about a tool: a definition in fields, and what is wrong with it beside the right one.

What a definition may say is said once, by the core (`read_tool`); here its pointers lead to fields and lines.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Final

from django import forms
from django.conf import settings

from dashboard.json_places import line_of
from fencing.protocol import strict_json
from fencing.protocol.errors import Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.policies import LATER, RANGES, Policy
from fencing.protocol.tools import Effect, Mode, ToolDefinition, read_tool

MAX_TEXT: Final = 300_000
MAX_LINE: Final = 4_000
Typed = Mapping[str, Any] | None
Given = MutableMapping[str, Any] | None

EFFECTS: Final = [
    (Effect.SIDE_EFFECTING.value, "side-effecting (fenced)"),
    (Effect.READ_ONLY.value, "read-only (skips the fence)"),
]
MODES: Final = [
    (Mode.PULL.value, "pull (a gateway asks)"),
    (Mode.PUSH.value, "push (a worker calls)"),
]
APPROVALS: Final = [("1", "one"), ("2", "two")]
LISTS: Final = ("advisory", "sensitive", "resources")
JSON_FIELDS: Final = ("args_schema", "compensator_args", "hints", "nothing_done", "already_done")
NUMBERS: Final = tuple(RANGES)
# Where a pointer of the core leads, the longest first; what leads nowhere stands above the form.
PLACES: Final = MappingProxyType(
    {
        "/compensator/tool": "compensator_tool",
        "/compensator/args": "compensator_args",
        "/compensator": "compensator_tool",
        **{
            f"/policy/{name}": name
            for name in (*RANGES, *LATER, "required_paths", "trusted_path", "nothing_done", "already_done")
        },
        **{
            f"/{name}": name
            for name in (
                "tool", "effect", "idempotent", "optimistic", "mode", "endpoint", "credential", "args_schema", "hints",
                "read_back", "ledger", *LISTS,
            )
        },
    }
)  # fmt: skip


def line(label: str, *, help_text: str = "", **attrs: str) -> forms.CharField:
    """Make a field of one line that a machine's word stands in: no capitals, no correction."""
    widget = forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false", **attrs})
    return forms.CharField(label=label, required=False, max_length=MAX_LINE, widget=widget, help_text=help_text)


def _json(label: str, help_text: str, rows: int = 12) -> forms.CharField:
    """Make a field that holds JSON: no capitals, no correction, and a line that says whether it is well formed."""
    attrs = {
        "rows": rows, "class": "code", "data-json": "", "spellcheck": "false", "autocapitalize": "none", "wrap": "off",
    }  # fmt: skip
    widget = forms.Textarea(attrs=attrs)
    return forms.CharField(label=label, required=False, max_length=MAX_TEXT, widget=widget, help_text=help_text)


def _pointers(label: str, help_text: str) -> forms.CharField:
    attrs = {"rows": 3, "class": "code", "spellcheck": "false", "autocapitalize": "none"}
    widget = forms.Textarea(attrs=attrs)
    return forms.CharField(label=label, required=False, max_length=MAX_TEXT, widget=widget, help_text=help_text)


def _number(label: str, help_text: str, name: str) -> forms.CharField:
    low, high = RANGES[name]
    told = f"{help_text} {low:,} to {high:,}." if help_text else f"{low:,} to {high:,}."
    return line(label, help_text=told, inputmode="numeric")


def _choice(label: str, choices: list[tuple[str, str]], help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, help_text=help_text)


def _flag(label: str, help_text: str) -> forms.BooleanField:
    return forms.BooleanField(label=label, required=False, help_text=help_text)


class ToolForm(forms.Form):
    """A definition of a tool. `definition` is what it says, once it is valid."""

    tool = line("Name", help_text="As its calls name it. It never changes.")
    effect = _choice("Effect", EFFECTS, "What only reads is admitted without a vote and without a token.")
    required_paths = line("Paths that must agree", help_text="Names with blanks between them.")
    trusted_path = line("Trusted path", help_text="One of them: it gives the payload, and may act alone under a grant.")
    grant_approvals = _choice("People for a grant", APPROVALS, "With two, a second person approves each grant.")
    max_grant_ttl_s = _number("Longest life of a grant, in seconds", "", "max_grant_ttl_s")
    grace_s = _number("Grace under a grant, in seconds", "How long a missing path may still speak.", "grace_s")
    deadline_s = _number("Deadline, in seconds", "Silence rejects after it.", "deadline_s")

    mode = _choice("Delivery", MODES)
    endpoint = line("Endpoint", help_text="Of a push tool, over https. No user and no password in it.", inputmode="url")
    credential = line("Credential", help_text="The name of one that is kept outside the database, for a push tool.")
    read_back = line(
        "Read-back",
        help_text="Where a push tool tells of one {key}, at the endpoint's host.",
        inputmode="url",
    )
    ledger = line("Ledger", help_text="Where a push tool lists its effects, at the endpoint's host.", inputmode="url")
    max_in_flight = line("Most calls at once", help_text="Of a push tool.", inputmode="numeric")
    rate_per_s = line("Most calls a second", help_text="Of a push tool; empty: as they come.", inputmode="numeric")
    idempotent = _flag("Idempotent", "It honours the idempotency key: a lost answer is asked for again.")
    optimistic = _flag("Optimistic", "It may leave from an undecided branch; it can be undone.")
    lease_s = _number("Lease, in seconds", "How long a call may take before nobody knows what became of it.", "lease_s")
    timeout_s = _number("Timeout of a push call, in seconds", "", "timeout_s")
    max_deliveries = _number("Most tries", "Of an idempotent tool, before a person is asked.", "max_deliveries")
    nothing_done = _json(
        "Answers that say that nothing was done",
        'HTTP statuses, or {"status": 409, "pointer": "/code", "equals": "in_progress"}, in a JSON list.',
        3,
    )

    already_done = _json(
        "Answers that say that it is done already",
        "In the same form: this very idempotency key has had its effect.",
        3,
    )

    compensator_tool = line("Undone by the tool", help_text="Empty: a person undoes it by hand.")
    compensator_args = _json(
        "Arguments of the undoing",
        'A template: constants, or {"from": "action" or "response", "pointer": "/args/invoice", "default": null}.',
        6,
    )
    compensation_approvals = _choice("People for an undoing", APPROVALS)

    advisory = _pointers(
        "Advisory members", "JSON Pointers into the arguments, one a line. Paths need not agree on them."
    )
    sensitive = _pointers("Sensitive members", "One a line. They are masked in pages, exports and logs.")
    resources = _pointers("What it touches", "One a line, such as /invoice. Pages find its effects by it.")
    args_schema = _json("Schema of the arguments", "JSON Schema 2020-12. Patterns are RE2: no look-around.", 18)
    hints = _json("Hints", "What others say of it, for people to read. Nothing is decided by them.", 6)

    def __init__(self, data: Typed = None, *, initial: Given = None, name: str | None = None) -> None:
        """Make it empty, from `initial` or from what was typed; `name` is that of a tool that is there already."""
        super().__init__(data, initial=initial or initial_of(None), label_suffix="", auto_id="tool-%s")
        self.name = name
        self.definition: ToolDefinition | None = None
        if name is not None:
            del self.fields["tool"]

    def clean(self) -> dict[str, Any]:
        """Read it as the registry reads a definition; what is wrong stands beside its field."""
        cleaned = dict(super().clean() or {})
        written = self._written(cleaned)
        if self.errors:
            return cleaned
        read = read_tool(written, plain_http_hosts=settings.FENCE_TOOL_HOSTS)
        if isinstance(read, Refusal):
            self.refuse(read)
        else:
            self.definition = read
        return cleaned

    def refuse(self, refusal: Refusal) -> None:
        """Put a refusal beside the field that its pointer leads to, with the place inside it."""
        pointer = refusal.pointer or ""
        at = next((place for place in PLACES if pointer == place or pointer.startswith(f"{place}/")), "")
        name = PLACES.get(at)
        if name is None or name not in self.fields:
            self.add_error(None, refusal.detail)
            return
        inside, text = pointer.removeprefix(at), str(self.data.get(name, ""))
        if name in LISTS and not text.lstrip().startswith("["):
            self.add_error(name, f"line {_line_of_item(text, inside)}: {refusal.detail}" if inside else refusal.detail)
            return
        self.add_error(name, _placed(refusal.detail, inside, text, is_json=name in (*JSON_FIELDS, *LISTS)))

    def _written(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Write what was typed as a definition. What cannot be a number stays text, for the core to name it."""
        values = {name: self._parsed(name, str(typed.get(name) or "")) for name in JSON_FIELDS}
        policy = {name: _whole(typed.get(name), getattr(Policy(), name)) for name in NUMBERS}
        written: dict[str, Any] = {
            "tool": self.name if self.name is not None else str(typed.get("tool") or "").strip(),
            "effect": typed.get("effect"),
            "idempotent": bool(typed.get("idempotent")),
            "optimistic": bool(typed.get("optimistic")),
            "mode": typed.get("mode"),
            "endpoint": _text(typed.get("endpoint")),
            "credential": _text(typed.get("credential")),
            "read_back": _text(typed.get("read_back")),
            "ledger": _text(typed.get("ledger")),
            "compensator": self._compensator(typed, values["compensator_args"]),
            "args_schema": values["args_schema"],
            "hints": {} if values["hints"] is None else values["hints"],
            **{name: self._lines(name, str(typed.get(name) or "")) for name in LISTS},
            "policy": {
                **policy,
                "required_paths": str(typed.get("required_paths") or "").split(),
                "trusted_path": str(typed.get("trusted_path") or "").strip(),
                "nothing_done": [] if values["nothing_done"] is None else values["nothing_done"],
                "already_done": [] if values["already_done"] is None else values["already_done"],
                **{name: _whole(typed.get(name), default) for name, default in LATER.items()},
            },
        }
        return written

    def _compensator(self, typed: Mapping[str, Any], args: Any) -> Any:
        tool = str(typed.get("compensator_tool") or "").strip()
        if not tool and args in (None, {}):
            return None
        return {"tool": tool, "args": {} if args is None else args}

    def _parsed(self, name: str, text: str) -> Any:
        """Read a field of JSON; None where it is empty, and where it is none (which is told beside it)."""
        if not text.strip():
            return None
        value = strict_json.parse(text.encode("utf-8", "replace"))
        if isinstance(value, Refusal):
            detail = _syntax(text) or _placed(value.detail, value.pointer or "", text, is_json=True)
            self.add_error(name, detail)
            return None
        return value

    def _lines(self, name: str, text: str) -> Any:
        """Read pointers, one a line; a JSON list where one of them could not stand in a line."""
        if text.lstrip().startswith("["):
            return self._parsed(name, text) or []
        return [each.strip() for each in text.splitlines() if each.strip()]


class ListingForm(forms.Form):
    """A listing of tools as an MCP server gives it, pasted."""

    listing = _json(
        "MCP listing", "The answer of tools/list, or one tool of it. Hints fill the form, and set nothing.", 8
    )

    def __init__(self, data: Typed = None) -> None:
        super().__init__(data, label_suffix="", auto_id="listing-%s")
        self.fields["listing"].required = True
        self.fields["listing"].error_messages["required"] = "Paste a listing."

    def clean_listing(self) -> Any:
        """Read it as JSON."""
        text = self.cleaned_data["listing"]
        value = strict_json.parse(text.encode("utf-8", "replace"))
        if isinstance(value, Refusal):
            raise forms.ValidationError(_syntax(text) or _placed(value.detail, value.pointer or "", text, is_json=True))
        return value

    def refuse(self, refusal: Refusal) -> None:
        """Tell what is no listing, and where."""
        text = str(self.data.get("listing", ""))
        self.add_error("listing", _placed(refusal.detail, refusal.pointer or "", text, is_json=True))


class DecideForm(forms.Form):
    """The reason of a decision about tools."""

    reason = forms.CharField(
        label="Reason",
        max_length=MAX_LINE,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="In your own words; it stands in the audit and beside the version.",
        error_messages={"required": "Say why: the reason stands in the audit."},
    )

    def __init__(self, data: Typed = None, *, act: str, initial: Given = None) -> None:
        super().__init__(data, initial=initial, label_suffix="", auto_id=f"{act}-%s")


def initial_of(definition: ToolDefinition | None) -> dict[str, Any]:
    """What the fields of a form hold for a definition; the careful defaults for none."""
    policy = Policy() if definition is None else definition.policy
    filled: dict[str, Any] = {
        **{name: str(getattr(policy, name)) for name in NUMBERS},
        "required_paths": " ".join(policy.required_paths),
        "trusted_path": policy.trusted_path,
        "nothing_done": pretty([answer.as_json() for answer in policy.nothing_done]) if policy.nothing_done else "",
        "already_done": pretty([answer.as_json() for answer in policy.already_done]) if policy.already_done else "",
        "max_in_flight": str(policy.max_in_flight),
        "rate_per_s": "" if policy.rate_per_s is None else str(policy.rate_per_s),
        "effect": Effect.SIDE_EFFECTING.value,
        "mode": Mode.PULL.value,
    }
    if definition is None:
        return filled
    compensator = definition.compensator
    return {
        **filled,
        "tool": definition.tool,
        "effect": definition.effect.value,
        "idempotent": definition.idempotent,
        "optimistic": definition.optimistic,
        "mode": definition.mode.value,
        "endpoint": definition.endpoint or "",
        "credential": definition.credential or "",
        "read_back": definition.read_back or "",
        "ledger": definition.ledger or "",
        "compensator_tool": "" if compensator is None else compensator.tool,
        "compensator_args": "" if compensator is None else pretty(compensator.args),
        "args_schema": "" if definition.args_schema is None else pretty(definition.args_schema),
        "hints": pretty(dict(definition.hints)) if definition.hints else "",
        **{name: _as_lines(getattr(definition, name)) for name in LISTS},
    }


def pretty(value: Any) -> str:
    """Write JSON for people: two blanks a level, names in their own order, hidden characters by their number.

    A field cannot spell what deceives the eye; JSON can, and means the same.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if text.isascii() else "".join(_spelt(character) for character in text)


def names_of(text: str) -> str:
    """Give a name where it can be one of a tool, else nothing: a form is filled with no more than it can take."""
    return text if is_identifier(text) else ""


def _spelt(character: str) -> str:
    is_seen = character in "\n " or unicodedata.category(character)[0] not in "CZ"
    return character if is_seen else json.dumps(character)[1:-1]


def _as_lines(pointers: tuple[str, ...]) -> str:
    plain = all(each == each.strip() and each.isprintable() for each in pointers)
    return "\n".join(pointers) if plain else pretty(list(pointers))


def _placed(detail: str, inside: str, text: str, *, is_json: bool) -> str:
    """Say where inside a field something is wrong: its pointer, and the line where it stands."""
    if not inside:
        return detail
    number = line_of(text, inside) if is_json else None
    return f"{inside}{f', line {number}' if number else ''}: {detail}"


def _line_of_item(text: str, inside: str) -> int:
    """Give the number of the line that holds an item of a list, blank lines not being items."""
    lines = [number for number, each in enumerate(text.splitlines(), 1) if each.strip()]
    return lines[int(inside.removeprefix("/"))]


def _syntax(text: str) -> str:
    """Say where a text stops being JSON; empty where it is JSON that is refused for what it holds."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return f"This is not JSON: {fault.msg}, line {fault.lineno}, column {fault.colno}."
    except RecursionError:
        return "This is nested too deeply."
    return ""


def _text(value: object) -> str | None:
    return str(value or "").strip() or None


def _whole(value: object, default: int | None) -> int | str | None:
    """Read a whole number; text that is none comes back as it is, and nothing is the default."""
    told = str(value if value is not None else "").strip()
    if not told:
        return default
    return int(told) if told.isascii() and told.isdecimal() and len(told) <= 9 else told  # noqa: PLR2004 - a billion
