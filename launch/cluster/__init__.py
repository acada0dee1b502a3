"""A run on this machine or a Dask cluster: who takes part, and who looks after them."""
