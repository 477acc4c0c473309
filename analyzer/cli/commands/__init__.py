"""One file per command; a command loads only the part of the pipeline that it runs."""
