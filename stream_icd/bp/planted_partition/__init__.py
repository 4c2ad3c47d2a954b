"""The planted partition model: likelihood, mixing, belief propagation, prediction of new edges."""
