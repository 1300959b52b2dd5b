"""PyTorch: modules through torch.export, and a backend of torch.compile."""
