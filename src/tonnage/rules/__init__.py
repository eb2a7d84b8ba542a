"""One module per scheduler plugin, and the pipeline that runs them."""
