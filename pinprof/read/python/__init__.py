"""Python functions and lines: stacks that py-spy saw, frames that replace the interpreter's."""
