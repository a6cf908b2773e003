"""What tests build their inputs with, and what they compare with."""
