"""Settings: defaults, the settings file, `HARKEN_*`, the caller; each value with its origin."""
