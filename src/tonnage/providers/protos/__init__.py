"""Protocols spoken with the outside world, and the code that protoc makes of them."""
