"""Whether one side is slower than another, from blocks in which both met the same machine: numbers in, numbers out."""
