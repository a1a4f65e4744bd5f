"""What every room builds on: safe files, random streams, progress, compiled kernels, text, coded values."""
