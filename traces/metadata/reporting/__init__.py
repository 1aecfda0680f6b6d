"""What is reported of a metadata log: lines, findings, doubts."""
