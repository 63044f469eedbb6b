"""What runs did: the journal, receipts, and how an interrupted run is finished."""
