"""The controller of KRaft mode: its rules as functions, and an explorable protocol made of them."""
