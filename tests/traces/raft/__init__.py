"""Tests of raft logs."""
