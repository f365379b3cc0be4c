"""The only way to a tool: admission, outcomes, and what is unknown (protocol, section 9)."""
