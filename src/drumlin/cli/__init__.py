"""The console command `drumlin`: runs a broker and manages clusters from a shell."""
