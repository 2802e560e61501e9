"""Hooks of coding agents: what a prompt brings back, and what an agent's transcript hands over."""
