"""When to learn: each trigger is a pure function that also says why not."""
