"""The public functions of ``highwater`` and what they give back."""
