"""Two sides of a change, each a recording or several: what differs, by how much, and whether by chance."""
