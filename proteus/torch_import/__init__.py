"""A PyTorch module as a model: ``pt.from_torch``.

::

    nn.Module ─► trace ─► patterns ─► translate ─► fuse ─► blocks ─► Model
               (export)  (groups)    (ops over    (GEMMs  (named dims,
                                      factors)    merged)  equal layers)
"""
