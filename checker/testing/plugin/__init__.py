"""What the pytest plugin does once it is asked for: scenarios as test items, and fixtures."""
