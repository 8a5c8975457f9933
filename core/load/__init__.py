"""What is sent, and when."""
