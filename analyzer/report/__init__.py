"""Renderers: one file per format, each a function of `view.ReportView` alone."""
