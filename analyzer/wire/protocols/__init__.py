"""One file per protocol: which tshark fields its messages hold, and in what order."""
