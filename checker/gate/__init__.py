"""The gate: everything that a committed baseline promises of a protocol, run again and compared.

``baseline`` is the file, ``facts`` what is run and what is kept of it, ``runs`` the order, the cores and the
budget, ``comparison`` what is the same, renamed or different. ``revisions``, ``image`` and ``restored`` bring the
model of another revision here; ``differences`` says what its steps do otherwise, ``texts`` what its source says
otherwise. ``report`` has what people and other programs read.
"""
