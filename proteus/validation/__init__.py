"""Published training runs against predictions: how far the simulator can be trusted."""
