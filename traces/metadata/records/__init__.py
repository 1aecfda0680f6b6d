"""What each type of record does to the image, and what the rules say of it."""
