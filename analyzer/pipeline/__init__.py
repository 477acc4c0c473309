"""The story of each job from top to bottom, a file each; the only package that knows all parts."""
