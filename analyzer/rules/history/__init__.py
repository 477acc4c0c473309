"""Rules about the history of workers: what they saw and did, against what the mount promises."""
