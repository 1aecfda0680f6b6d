"""Pages for people, and what only they need: the programs that write and measure them. No part of the product."""
