"""Pure algorithms on operations: folds that write derived tables, and the arithmetic they share."""
