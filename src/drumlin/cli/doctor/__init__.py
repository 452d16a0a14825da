"""`drumlin doctor`: facts are gathered apart, checks decide on them, findings say what to do."""
