"""The budget of a prompt."""

WEIGHTS = {"code": 2, "notes": 1}


def divide(total: int) -> dict[str, int]:
    """Divide the token budget by weight among code and notes."""
    whole = sum(WEIGHTS.values())
    return {kind: total * weight // whole for kind, weight in WEIGHTS.items()}
