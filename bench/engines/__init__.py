"""The stores that are measured side by side, each in one small file behind one interface."""
