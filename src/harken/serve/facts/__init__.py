"""What is found and done as JSON: one shape for scripts, HTTP and MCP."""
