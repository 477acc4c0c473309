"""The shapes that every other part reads and writes: operations, tables, rules, findings, coverage."""
