"""What conversations are about, taken together."""
