"""One level of a search on Spark: expanded, exchanged, merged, committed."""
