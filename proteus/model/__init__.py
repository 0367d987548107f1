"""Ops and tensors with named dims, and the zoo of models built from them."""
