"""Captures → operations. The only place that knows tshark and pyshark."""
