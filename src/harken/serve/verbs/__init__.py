"""Every verb once, for HTTP and MCP alike."""
