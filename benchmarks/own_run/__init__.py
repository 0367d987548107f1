"""A real distributed run on this machine beside its prediction."""
