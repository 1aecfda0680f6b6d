"""The gate: everything that a committed baseline promises of a protocol, run again and compared.

``baseline`` is the file, ``facts`` what is run and what is kept of it, ``runs`` the order, the cores and the
budget, ``comparison`` what is the same, renamed or different. ``revisions`` and ``image`` bring the model of
another revision here. ``models`` compares it with the present one, by its expressions (``differences``) and ``states``;
``elsewhere`` finds a larger scenario that reaches a state in which they differ. ``texts`` finds what differs in the
source, ``sources`` what effect it has. ``report`` writes the report, for people and as JSON.
"""
