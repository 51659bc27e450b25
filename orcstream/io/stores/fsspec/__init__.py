"""Every other store, through its fsspec file system."""
