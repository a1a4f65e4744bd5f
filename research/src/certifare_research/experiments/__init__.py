"""Every table and figure of the paper, one module each, behind ``certifare reproduce``."""
