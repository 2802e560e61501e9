"""Each operation once, for the command line, slash commands, MCP and HTTP."""
