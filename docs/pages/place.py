"""Where the pages are."""

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
