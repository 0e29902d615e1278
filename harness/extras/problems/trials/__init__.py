"""What happens to problem files in the processes of trials, which alone run them."""
