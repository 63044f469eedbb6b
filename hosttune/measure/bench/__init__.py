"""`hosttune bench`: does a change pay here, tried in pairs on scratch copies."""
