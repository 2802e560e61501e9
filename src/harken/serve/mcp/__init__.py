"""Memory for any MCP client: tools from the verbs, resources and prompts."""
