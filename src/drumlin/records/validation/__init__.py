"""What a produced batch must satisfy before it enters a log. Decides alone; appends nothing."""
