"""Where detection is done: in this process, or in processes with a budget for each job."""
