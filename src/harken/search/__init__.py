"""Finding what matters: words, meaning, fusion, weights, thresholds."""
