"""What text and files say: log signatures, and the verdict on evidence after the fact."""
