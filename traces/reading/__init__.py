"""Files that are not believed: their lines, the fields of what is in them, and the error of what cannot be read."""
