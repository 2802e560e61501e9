"""What agents write into a transcript that nobody said: each kind with words of its own, none of which may be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import CommandLine, files_holding

SESSION = {"sessionId": "s-1", "cwd": "/nowhere", "timestamp": "2026-05-08T09:00:00Z", "version": "2.1.330"}


def marked(number: int) -> str:
    return f"injected zanzibar{number} words"


def user(uuid: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, **SESSION, "message": {"role": "user", "content": content}, **more}


def attached(uuid: str, **attachment: Any) -> dict[str, Any]:
    return {"type": "attachment", "uuid": uuid, **SESSION, "attachment": attachment}


CLAUDE_CODE = (
    user("u1", f"What is a numbat?<system-reminder>{marked(1)}</system-reminder>"),
    user("u2", [{"type": "text", "text": f"<user-prompt-submit-hook>{marked(2)}</user-prompt-submit-hook>"}]),
    attached("u3", type="hook_additional_context", content=[marked(3)], hookName="UserPromptSubmit"),
    attached("u4", type="hook_success", content=marked(4), stdout=json.dumps({"additionalContext": marked(5)})),
    user("u5", f"Caveat of the agent: {marked(6)}", isMeta=True),
    user("u6", f"This session is being continued from a previous conversation. {marked(7)}", isCompactSummary=True),
    {"type": "api-request", **SESSION, "message": {"role": "user", "content": marked(8)}},
    {"type": "api-shape", **SESSION, "shape": marked(9)},
    {"type": "api-blob", **SESSION, "blob": marked(10), "message": {"role": "assistant", "content": marked(11)}},
    {"type": "queue-operation", **SESSION, "operation": "enqueue", "content": marked(12)},
    {"type": "last-prompt", **SESSION, "lastPrompt": marked(13)},
    {"type": "system", "subtype": "informational", "uuid": "u7", **SESSION, "content": marked(14)},
    user("u8", f"<command-name>/status</command-name><command-args>{marked(15)}</command-args>"),
    user("u9", f"<local-command-stdout>{marked(16)}</local-command-stdout>"),
    user(
        "u10",
        [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": f"a small marsupial\n<system-reminder>{marked(17)}</system-reminder>",
            }
        ],
    ),
    {
        "type": "assistant",
        "uuid": "u11",
        **SESSION,
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": marked(18)},
                {"type": "text", "text": f"It eats termites.<harken-recall id='1'>{marked(19)}</harken-recall>"},
            ],
        },
    },
    {
        "type": "assistant",
        "uuid": "u12",
        **SESSION,
        "isApiErrorMessage": True,
        "message": {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": marked(20)}]},
    },
    attached("u13", type="prompt_snapshot", systemPrompt=[marked(21)], tools=[marked(22)]),
)
CODEX = (
    {"type": "session_meta", "payload": {"id": "019c8a4c-ed82-79a1-aa28-7738fc5ab61a", "instructions": marked(31)}},
    {"type": "response_item", "payload": {"type": "message", "role": "developer", "content": [{"text": marked(32)}]}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": f"<environment_context>{marked(33)}</environment_context>"},
            ],
        },
    },
    {"type": "event_msg", "payload": {"type": "user_message", "message": "What is a bilby?"}},
    {"type": "event_msg", "payload": {"type": "agent_reasoning", "text": marked(34)}},
    {"type": "response_item", "payload": {"type": "reasoning", "summary": [{"text": marked(35)}]}},
    {"type": "compacted", "payload": {"message": marked(36), "replacement_history": [{"content": marked(37)}]}},
    {"type": "turn_context", "payload": {"cwd": "/nowhere", "user_instructions": marked(38)}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "It has long ears."}],
        },
    },
)


def test_no_context_that_hooks_and_agents_inject_reaches_any_file(cli: CommandLine, tmp_path: Path) -> None:
    for name, lines in (("s-1.jsonl", CLAUDE_CODE), ("rollout-x.jsonl", CODEX)):
        written = [json.dumps({"timestamp": "2026-05-08T09:00:00Z", **line}) for line in lines]
        assert any("zanzibar" in line for line in written)
        (tmp_path / name).write_text("\n".join(written) + "\n", encoding="utf-8")
        cli("import", tmp_path / name)
    assert files_holding(cli.home, b"zanzibar") == []
    said = [hit["text"] for words in ("numbat", "termites", "marsupial", "bilby", "ears") for hit in cli.search(words)]
    assert set(said) == {
        *("What is a numbat?", "It eats termites.", "a small marsupial"),
        *("What is a bilby?", "It has long ears."),
    }
