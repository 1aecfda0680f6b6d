"""Plans of an operator: from the metadata log of a cluster to the outcomes that are possible, and reports."""
