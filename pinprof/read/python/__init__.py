"""Python functions and lines: stacks that were seen, frames that replace the interpreter's."""
