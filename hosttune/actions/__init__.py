"""Acting: apply a plan, keep the journal, take changes back."""
