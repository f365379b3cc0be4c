"""What a person can do on a page: a button that says what will happen, what was seen, and why it may not be pressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.forms import BaseForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that changed between what a person saw and what is so now."""

    what: str
    seen: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A posting form behind a button.

    `opens` names the act and opens the form ("Replay…"); `says` is the button that does it and says what happens
    ("Replay pay-invoice into epoch 8"). `seen` names the version that the person saw, `facts` what was shown of it, for
    a conflict to lay beside what is new. `why_not` is the reason of the rule that forbids it, in the words that the API
    would answer with. After a conflict, `changes` tell what is new. `must_confirm` is for acts that ask who one is.
    """

    id: str
    opens: str
    says: str
    url: str
    seen: Mapping[str, str] = field(default_factory=dict)
    form: BaseForm | None = None
    explains: str = ""
    why_not: str = ""
    changes: tuple[Change, ...] = ()
    is_open: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    must_confirm: bool = False

    @property
    def must_be_open(self) -> bool:
        """Tell whether the form has something to say: an error in a field, or a conflict."""
        return self.is_open or bool(self.changes) or bool(self.form is not None and self.form.errors)
