"""What is spoken with CSI drivers, and the code that protoc makes of it."""
