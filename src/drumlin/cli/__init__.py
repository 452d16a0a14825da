"""The console command `drumlin`: a broker, and what one does with a cluster from a shell."""
