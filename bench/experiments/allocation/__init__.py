"""Filter memory shared among runs, beside the formulas of Monkey and Dostoevsky."""
