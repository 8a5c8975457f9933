"""The screen to choose a recorded run from."""
