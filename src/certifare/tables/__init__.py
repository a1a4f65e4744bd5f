"""Tables: files and dataframes read into typed columns with roles, and split into parts."""
