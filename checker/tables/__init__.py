"""The state space as tables: states and transitions with decoded, named columns, as Parquet."""
