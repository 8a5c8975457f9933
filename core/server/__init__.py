"""What the server says of itself."""
