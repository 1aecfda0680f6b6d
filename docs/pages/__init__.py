"""The generated pages of the site, and the site itself: ``python -m docs.pages`` builds it (``make docs``)."""
