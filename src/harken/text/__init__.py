"""Words, tokens, sentences and dates in texts, whoever said them."""
