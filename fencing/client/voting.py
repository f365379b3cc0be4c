"""Deciding a step by a model: its context and the tools' schemas go in, the tool call that comes back is voted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fencing.client.chat import ChatModel, NoAnswer
from fencing.client.objects import Wanted
from fencing.client.path import Ballot
from fencing.protocol.canonical import canonical_bytes, digest_of

INSTRUCTION: Final = (
    "You decide one step of a workflow on your own. Call exactly one of the tools with exactly the arguments that the "
    "context asks for. Call none where the context does not tell what to do."
)
MAX_PROMPT_NAME: Final = 71


class ModelVote:
    """What `Path.serve` asks: one question to a model, one vote. Whatever is no single tool call is an abstention."""

    def __init__(self, model: ChatModel, *, instruction: str = INSTRUCTION) -> None:
        self.model = model
        self.instruction = instruction
        # Two paths with the same model and prompt agree for one reason: that is marked (F10).
        self.prompt = digest_of(canonical_bytes({"instruction": instruction}))[:MAX_PROMPT_NAME]

    def __call__(self, wanted: Wanted) -> Ballot:
        """Decide; raises `NoAnswer`, which the path turns into an abstention with the reason."""
        tools = [_as_function(tool) for tool in wanted.tools or ()]
        context = json.dumps({"step": wanted.step, "context": wanted.context}, ensure_ascii=False)
        messages = ({"role": "system", "content": self.instruction}, {"role": "user", "content": context})
        said = self.model.ask(messages, tools=tools)
        if len(said.calls) != 1:
            raise NoAnswer(f"the model called {len(said.calls)} tools, and one was asked for")
        (call,) = said.calls
        action = {"tool": call.tool, "args": dict(call.args)}
        return Ballot(action=action, model=self.model.model, prompt=self.prompt, rationale=said.text or None)


def _as_function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of the fence as the chat protocol names it."""
    schema = tool.get("args_schema") or {"type": "object"}
    return {"type": "function", "function": {"name": tool["tool"], "parameters": schema}}
