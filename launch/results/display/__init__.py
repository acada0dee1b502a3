"""What people see of results: bars while a run goes on, pictures, tables in a notebook, text that is safe to print."""
