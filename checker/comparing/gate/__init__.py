"""The gate: everything that a committed baseline promises of a protocol, run again and compared.

``baseline`` is the file, ``facts`` what is run and what is kept of it, ``runs`` the order, the cores and the
budget, ``comparison`` what is the same, renamed or different. ``revisions``, ``image`` and ``restored`` bring the
model of another revision here. ``models`` compares it with the present one, by ``expressions`` and by ``states``;
``differences`` says what was found, ``elsewhere`` whether a larger scenario reaches a state that tells. ``texts`` and
``pieces`` find what differs in the source, ``sources`` what effect it has. ``report`` has what people and other
programs read.
"""
