"""Storage Analyzer: is shared storage consistent, durable and fairly shared, and who is to blame?"""

__version__ = "0.1.0"
