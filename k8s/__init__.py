"""The Kubernetes inspector: objects from manifests or a live cluster → inventory → rules.

* `objects.py`: what an object is and where it came from; the seam between sources and the inspector
* `manifests.py`: files and folders → objects
* `inventory.py`: objects → typed rows that refer to each other; what rules read
* `catalogue/`: what is known of CSI drivers and mount options, as data
* `rules/`: one file per rule
"""
