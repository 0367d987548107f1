"""What kernels and collectives cost, and how they slow each other."""
