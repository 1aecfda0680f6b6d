"""Replay of one metadata log in several shares of its partitions, on as many processes, with one report.

The log is cut into ranges of bytes between batches (``plan``). Each range is read once: its records are routed to
the shares that follow them (``route``), in blocks of bytes (``blocks``). Each share is followed from the first range to
the last (``follow``), by the classes that follow a whole log, and what the shares found becomes one report (``join``).

Why so. Of the embedded replay of 5 million records one eighth is reading (checksums, batches into records), a quarter
is explaining what was not explained before, and the rest is looking up and keeping the image. So reading is done once,
by range, and what is read travels; decoding in every share would soon cost more than the share. What is
about the cluster (registrations, fencing, settings, features, topics: one record in two hundred) goes to
every share, in order, so each has the whole image but for the partitions of others.
``highwater.traces.metadata.sharing`` says what else crosses partitions. Shares are of topics, not of partitions,
because what min.insync.replicas means for a
partition depends on the replicas of its topic's first one (966.2): a topic with most of a log's changes is not divided.

Each share explains what occurs in it anew. That is what limits the gain: see docs/spark.md.
"""
